"""The retry of an event that was recorded in part, after its suppression has ended.

Nothing stores which of its notifications were recorded, so a retry applies all of them again. This
is harmless: each row has the date of its last change, and ignores an earlier one.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from contract import ADA
from homes import EVERY_RECORD, RECORDING, Home, Rows
from law_model import Model

from copying import replace
from engines import MEMORY
from hookrow import (
    Arrival,
    Bounced,
    Notification,
    Reactivated,
    Recorded,
    Refused,
    Schema,
    Suppressed,
)
from hookrow._core.result import Result
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import read_entries
from hookrow._receiver.recorder import record
from hookrow._receiver.replay import ParkedRetry
from hookrow.providers._built_in import BuiltIn
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from times import HOUR, SECOND
from wire import PATIENCE

ID = "<19>"
BOUNCED = datetime.now(UTC).replace(microsecond=0) - 2 * HOUR
REACTIVATED = BOUNCED + HOUR
"""Not long ago, because old notifications are not retried, and in whole seconds, because some
providers have no others."""

BESIDE = replace(
    RECORDING,
    **{
        name: replace(role, columns={**role.columns, "suppression_changed_at": None})
        for name, role in RECORDING.roles.items()
    },
)
"""The dates of changes are beside the log."""

SCHEMAS = {"dated": EVERY_RECORD, "other names": RECORDING, "beside the log": BESIDE}


REACTIVATING = [
    name
    for name in PROVIDER_NAMES
    if built_in(name).parser().compose(Reactivated(ADA, ID, REACTIVATED)) is not None
]
"""The providers that report the end of a suppression."""


@pytest.fixture(params=SCHEMAS)
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    with closing(Home(MEMORY, SCHEMAS[request.param])) as home:
        yield home


def _world(home: Home, message_id: str | None) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of Ada, who is on a list, and of a dispatch to her."""
    ada, list_ = home.key(1), home.key(2)
    sent = {"provider_message_id": message_id, "subscriber_id": ada, "list_id": list_}
    return {
        "subscribers": [{"id": ada, "email": ADA}],
        "subscriptions": [{"list_id": list_, "subscriber_id": ada}],
        "dispatches": [{"id": home.key(3), **sent}],
    }


def _arrivals(provider: BuiltIn) -> list[Arrival]:
    """Return a hard bounce, the suppression with which the provider follows it, and its end.

    The first two are one event, or two.
    """
    changes: Sequence[Notification] = (
        Bounced(ADA, ID, BOUNCED, provider.hard_bounce),
        Suppressed(ADA, ID, BOUNCED, "HardBounce"),
        Reactivated(ADA, ID, REACTIVATED),
    )
    bodies = dict.fromkeys(map(provider.compose, changes))
    return [
        Arrival(event.notifications, body, at, provider=provider.name)
        for body in bodies
        if body is not None
        for event in [provider.parse(body)]
        for at in [max(each.at or BOUNCED for each in event.notifications) + SECOND]
    ]


def _in_time(schema: Schema, home: Home, arrivals: list[Arrival]) -> Rows:
    """Return the rows of the law's model if the dispatch exists before all events."""
    model = Model(schema, _world(home, ID))
    for each in arrivals:
        assert isinstance(model.record([each])[0], Recorded)
    return model.rows()


def _late(home: Home, provider: BuiltIn, arrivals: list[Arrival], *, commits_first: bool) -> Rows:
    """Return the rows if the dispatch is committed after the bounce, which is then retried.

    The reactivation arrives before the retry: after the dispatch, or before it.
    """
    home.fill(**_world(home, None))
    *first, reactivation = arrivals
    outcomes = [record(home.store, [each])[0] for each in first]
    assert isinstance(outcomes[0], Refused)
    table = home.schema.roles["dispatches"].table
    commit = f"UPDATE {table} SET provider_message_id = '{ID}'"
    if commits_first:
        home.run(commit)
    assert isinstance(record(home.store, [reactivation])[0], Recorded)
    if not commits_first:
        home.run(commit)
    assert home.store.log is not None
    retry = ParkedRetry(
        home.store, home.store.log, read_entries(provider), lambda *_: None, Clock(home.store)
    )
    assert retry.retry_now([ID]).result(PATIENCE) == 1
    assert {row["outcome"] for row in home.logged()} == {Result.RECORDED.value}
    return home.rows()


def test_providers_that_report_the_end_of_a_suppression() -> None:
    """One of them has both effects of a bounce in one event, of which a part is recorded."""
    assert REACTIVATING == ["postmark", "resend", "amazon_ses", "mandrill"]
    effects = {
        name: len(_arrivals(built_in(name).parser())[0].notifications) for name in REACTIVATING
    }
    assert effects == {"postmark": 1, "resend": 1, "amazon_ses": 2, "mandrill": 1}


@pytest.mark.parametrize("name", REACTIVATING)
def test_the_retry_after_a_reactivation(home: Home, name: str) -> None:
    """All rows are as if the dispatch had existed in time, as the law's model has them."""
    provider = built_in(name).parser()
    arrivals = _arrivals(provider)
    expected = _in_time(home.schema, home, arrivals)
    assert _late(home, provider, arrivals, commits_first=True) == expected
    [ada], [sent] = expected["subscribers"], expected["dispatches"]
    assert (ada["suppressed_at"], sent["bounced_at"]) == (None, BOUNCED)


@pytest.mark.parametrize("name", REACTIVATING)
def test_the_retry_of_a_bounce_whose_dispatch_did_not_exist_at_the_reactivation(
    home: Home, name: str
) -> None:
    """The person stays active, and the bounce is recorded, as in time."""
    provider = built_in(name).parser()
    arrivals = _arrivals(provider)
    expected = _in_time(home.schema, home, arrivals)
    found = _late(home, provider, arrivals, commits_first=False)
    assert found["subscribers"] == expected["subscribers"]
    [sent] = found["dispatches"]
    assert (sent["bounced_at"], sent["bounce_type"]) == (BOUNCED, provider.hard_bounce)
