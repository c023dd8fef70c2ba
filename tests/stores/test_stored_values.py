"""Stored message ids and emails that no notification can match, and the statements for them."""

from collections.abc import Sequence

import pytest
from homes import Home
from host_tables import HOST, make
from locations import ON_SQLITE, PLACES, empty_engine, own_home
from sqlalchemy import Engine
from test_tenants import make_teams, schema_of

from copying import replace
from databases import kind_of
from engines import run
from hookrow._describe import visible
from hookrow._diagnostics import CheckResult
from hookrow._diagnostics.stored_values import check_message_ids, wrong_emails
from hookrow._receiver.entries import Entries, Entry, Parsers
from hookrow.stores.sql import _newest
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify
from senders import SENDERS

home = pytest.fixture(own_home, params=PLACES)
engine = pytest.fixture(empty_engine)

UUID = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
DIGITS = UUID.replace("-", "")
SES_ID = "0100018f2b1c5d7e-8a9b0c1d-2e3f-4a5b-8c6d-7e8f9a0b1c2d-000000"
SENDGRID_ID = "IrP0gZOPSROWz4mQjYIhFA"

# What the host stores in the right and in the wrong form, and words of the warning.
FORMS: dict[tuple[str, str], tuple[str, str]] = {
    ("postmark", UUID.upper()): (UUID, "in capitals"),
    ("postmark", DIGITS.upper()): (UUID, "without hyphens"),
    ("postmark", f" {UUID}"): (UUID, "with spaces or invisible characters"),
    ("amazon_ses", f"<{SES_ID}>"): (SES_ID, "with angle brackets"),
    ("postmark", f"<{UUID}>"): (UUID, "with angle brackets"),
    ("amazon_ses", f"<{SES_ID}@email.amazonses.com>"): (SES_ID, "with a domain"),
    ("amazon_ses", f"{SES_ID}@eu-west-1.amazonses.com"): (SES_ID, "with a domain"),
    ("sendgrid", f"{SENDGRID_ID}.filter0001.16648.5515.0"): (SENDGRID_ID, "with a suffix"),
    ("mailgun", "x@mg.example.com"): ("<x@mg.example.com>", "without angle brackets"),
    ("mandrill", UUID): (DIGITS, "with hyphens"),
}


def readers(*names: str) -> Parsers:
    if len(names) == 1:
        return Entries(Entry(None, SENDERS[names[0]].construct()))
    return Entries(*(Entry(each, SENDERS[each].construct()) for each in names))


def send(home: Home, *message_ids: str | None) -> None:
    """Replace all rows by a dispatch with each of these message ids, oldest first."""
    home.fill(
        subscribers=[{"id": 1, "email": "ada@example.com"}],
        dispatches=[
            {"id": number, "provider_message_id": each, "subscriber_id": 1}
            for number, each in enumerate(message_ids, 1)
        ],
    )


def check(home: Home, *providers: str) -> Sequence[CheckResult]:
    return [*check_message_ids(home.store.database, home.store.role_tables, readers(*providers))]


def test_forms_of_message_ids(home: Home) -> None:
    """The warning has the count and an example, and the statement in it corrects the rows."""
    for (provider, wrong), (right, words) in FORMS.items():
        send(home, right, None, wrong)
        [warning] = check(home, provider)
        expected = f"Of the newest 2 message IDs in 'hookrow_dispatches', 1 is stored {words}"
        assert warning.text.startswith(
            f"{expected}, such as '{visible(wrong)}' instead of '{right}': no "
        )
        advice, _, update = warning.remedy.partition(" To correct the rows, run: ")
        assert advice == f"Store {SENDERS[provider].construct().message_id_source}."
        send(home, wrong)
        run(home.url, update)
        assert not check(home, provider)
        assert run(home.url, "SELECT provider_message_id FROM hookrow_dispatches") == [(right,)]


EMAILS = {
    " bob@example.com ": (
        "with spaces or invisible characters, such as that of b***@example.com: no notification "
        'finds these subscribers. Save the result of `"".join(filter(str.isprintable, '
        "email)).strip()`. To correct the rows, run: UPDATE"
    ),
    "Eve <eve@example.com>": (
        "with a display name or angle brackets, such as that of e***@example.com: no notification "
        "finds these subscribers. Save the result of `email.utils.parseaddr(email)[1]`."
    ),
    "zoe\u0308@example.com": (
        "with decomposed letters, such as that of z***@example.com: only a notification that has "
        'the same spelling finds these subscribers. Save the result of `unicodedata.normalize("NFC"'
        ", email)`."
    ),
    "Zo\u00cb@example.com": (
        "in capitals, such as that of Z***@example.com: only a notification that has the same "
        "spelling finds these subscribers. Save the result of `email.lower()`."
    ),
    "ada@b\u00fccher.example": (
        "with an international domain, such as that of a***@b\u00fccher.example: only a "
        "notification that has the same spelling finds these subscribers. Save the domain in the "
        "form that DNS has, with `xn--`."
    ),
    "Leo <l\u200beo@example.com>": (
        "with spaces or invisible characters and with a display name or angle brackets, such as "
        "that of l***@example.com: no notification finds these subscribers. Save"
    ),
}
"""Stored emails, and the warning of each."""


def test_emails(home: Home) -> None:
    """Those without a warning are plain; the statement in a warning corrects the rows."""
    emails = ["Ada@example.com", "zo\u00eb@example.com", *EMAILS]
    home.fill(subscribers=[{"id": id_, "email": each} for id_, each in enumerate(emails, 1)])
    database, tables = home.store.database, home.store.role_tables
    warnings = [*wrong_emails(database, tables)]
    newest = f"Of the newest {len(emails)} emails in 'hookrow_subscribers', 1 is stored"
    assert len(warnings) == len(EMAILS)
    for text in EMAILS.values():
        assert any(each.startswith(f"{newest} {text}") for each in warnings), text
    run(home.url, next(each for each in warnings if "UPDATE" in each).partition("run: ")[2])
    assert len([*wrong_emails(database, tables)]) == len(EMAILS) - 1


@ON_SQLITE
def test_invisible_characters_around_emails(home: Home) -> None:
    """No statement of SQL removes all of them."""
    home.fill(subscribers=[{"id": 1, "email": "\tada@example.com"}])
    [warning] = wrong_emails(home.store.database, home.store.role_tables)
    assert "UPDATE" not in warning


@ON_SQLITE
class TestMessageIds:
    def test_that_no_provider_has(self, home: Home) -> None:
        """Short ones are those of tests."""
        send(home, "m-1", UUID[1:], UUID, "message-10")
        [warning] = check(home, "postmark")
        assert "2 are not of the form of those of postmark, such as 'message-10'" in warning.text
        assert warning.remedy.startswith("Store `MessageID` of the response of its API. Nothing ")

    def test_several_providers(self, home: Home) -> None:
        """An id is wrong if it is that of no provider; no statement could correct only some."""
        send(home, UUID, SENDGRID_ID, DIGITS, "<x@mg.example.com>", "x@mg.example.com")
        assert "with a suffix" not in "".join(each.text for each in check(home, "sendgrid"))
        [warning] = check(home, "postmark", "sendgrid", "mailgun")
        assert "1 is stored without angle brackets, such as 'x@mg.example.com'" in warning.text
        assert "UPDATE" not in warning.remedy

    @pytest.mark.parametrize(
        ("stored", "words"),
        [
            (f"<{UUID.upper()}>", "with angle brackets and in capitals"),
            (f"\t{UUID}", "with spaces or invisible characters"),
        ],
    )
    def test_forms_that_no_statement_corrects(self, home: Home, stored: str, words: str) -> None:
        """They are several wrong forms at once, or characters other than spaces."""
        send(home, stored)
        [warning] = check(home, "postmark")
        assert f"1 is stored {words}, such as" in warning.text
        assert "UPDATE" not in warning.remedy

    def test_only_the_newest(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number of rows that are read is limited, whether or not they have an id."""
        monkeypatch.setattr(_newest, "SAMPLE", 2)
        send(home, UUID[1:], None, UUID)
        assert not check(home, "postmark")
        send(home, UUID, UUID[1:], None)
        [warning] = check(home, "postmark")
        assert warning.text.startswith("Of the newest 1 message ID in")

    def test_an_error(self, home: Home) -> None:
        tables = home.store.role_tables
        run(home.url, "DROP TABLE hookrow_dispatches")
        [warning] = check_message_ids(home.store.database, tables, readers("postmark"))
        assert warning.text.startswith("They cannot be checked: OperationalError: no such table")


def test_a_column_of_uuids(engine: Engine) -> None:
    """It matches a UUID in any form, but no other id, so the remedy is another column."""
    make(engine, {"sends.provider_message_id": kind_of(engine).types["uuid"]})
    stored = UUID if kind_of(engine).has_uuids else DIGITS
    run(engine, f"INSERT INTO sends (id, provider_message_id) VALUES (1, '{stored}')")
    database = open_database(engine)
    tables = verify(database, HOST).tables
    assert not [*check_message_ids(database, tables, readers("postmark"))]
    [warning] = check_message_ids(database, tables, readers("mandrill"))
    assert warning.remedy.startswith("Map `provider_message_id` to a text column, and store `_id`")


@pytest.mark.parametrize("roles", [("subscribers",), ("subscribers", "dispatches")])
def test_tenants(engine: Engine, roles: tuple[str, ...]) -> None:
    """The ids of a tenant are compared with its own providers', and named by its entries.

    Those of a tenant without an entry are not checked.
    """
    make_teams(engine, "integer", 1, 2)
    database = open_database(engine)
    tables = verify(database, schema_of(*roles)).tables
    run(engine, f"UPDATE sends SET provider_message_id = '{UUID}'")
    first, second = (SENDERS[each].construct() for each in ("postmark", "mailjet"))
    parsers = Entries(Entry("acme", first, 1), Entry("globex", second, 2))
    [warning] = check_message_ids(database, tables, parsers)
    assert "1 is not of the form of those of mailjet, such as" in warning.text
    assert f"'{UUID}', for 'globex': no" in warning.text
    assert not [*check_message_ids(database, tables, Entries(Entry("acme", first, 1)))]


@pytest.mark.parametrize("roles", [("subscribers",), ("subscribers", "dispatches")])
def test_a_tenant_with_few_rows_among_many(
    engine: Engine, roles: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest rows of each tenant are checked, and the same number of each."""
    make_teams(engine, "integer", 1, 2)
    database = open_database(engine)
    tables = verify(database, schema_of(*roles)).tables
    run(
        engine,
        f"UPDATE sends SET provider_message_id = '{UUID}'",
        f"UPDATE sends SET provider_message_id = '<{UUID}>' WHERE id = 1",
        "UPDATE people SET email = ' ada@example.com' WHERE id = 1",
        *(
            f"INSERT INTO people (id, email, team) VALUES ({n}, 'b{n}@example.com', 2)"
            for n in (3, 4)
        ),
        *(
            "INSERT INTO sends (id, provider_message_id, subscriber_id, team) "
            f"VALUES ({n}, '{UUID}', 3, 2)"
            for n in (3, 4)
        ),
    )
    monkeypatch.setattr(_newest, "SAMPLE", 2)
    provider = SENDERS["postmark"].construct()
    parsers = Entries(Entry("acme", provider, 1), Entry("globex", provider, 2))
    [warning] = check_message_ids(database, tables, parsers)
    assert warning.text.startswith("Of the newest 2 message IDs in 'sends', 1 is stored with angle")
    [text] = wrong_emails(database, tables, [*parsers.tenants.values()])
    assert text.startswith("Of the newest 2 emails in 'people', 1 is stored with spaces")
    assert not [*wrong_emails(database, tables, [2])]


def test_hidden_rows_among_the_newest(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not count."""
    monkeypatch.setattr(_newest, "SAMPLE", 1)
    make(engine)
    people = replace(HOST.subscribers, where={"state": None})
    tables = verify(open_database(engine), replace(HOST, subscribers=people)).tables
    run(
        engine,
        "INSERT INTO people (id, email) VALUES (1, ' ada@example.com')",
        "INSERT INTO people (id, email, state) VALUES (2, 'b@example.com', 7)",
    )
    [text] = wrong_emails(open_database(engine), tables)
    assert text.startswith("Of the newest 1 email in 'people', 1 is stored with spaces")
