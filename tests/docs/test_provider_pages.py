"""The pages about single providers: their code runs, and their tables are complete."""

import re
import tomllib
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hookrow import RequestHead
from hookrow._cli.entries import read_entries
from hookrow.django._providers import read_entries as read_project_entries
from hookrow.providers import amazon_ses, brevo, mailgun, mailjet, mandrill, resend, sendgrid
from hookrow.providers._built_in import credential_settings
from hookrow.providers._registry import built_in
from session import ROOT, execute, read_blocks, read_files
from wire import ENDPOINT

FOLDER = "docs/how-to/providers"


def sendgrid_key() -> str:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(encoded).decode()


class Page(NamedTuple):
    """What a page must have: the events that have an effect.

    `variable` is the environment variable of its code, with the value of the first setting.
    """

    variable: str
    value: str
    events: Collection[str]


PAGES: Mapping[str, Page] = {
    "amazon-ses": Page(
        "SES_TOPIC",
        "arn:aws:sns:eu-west-1:123456789012:mail-events",
        {*amazon_ses._EFFECTS, "Bounce", "Subscription"},
    ),
    "brevo": Page("BREVO_CREDENTIALS", "user:a-long-password", brevo._EFFECTS),
    "mailgun": Page("MAILGUN_SIGNING_KEY", "a-signing-key", {*mailgun._EFFECTS, "failed"}),
    "mailjet": Page(
        "MAILJET_CREDENTIALS",
        "user:a-long-password",
        {*mailjet._EFFECTS, "bounce", "blocked"},
    ),
    "mandrill": Page("MANDRILL_KEY", "a-key-of-mandrill", mandrill._EFFECTS),
    "resend": Page("RESEND_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", resend._EVENT_TYPES),
    "sendgrid": Page(
        "SENDGRID_PUBLIC_KEY",
        sendgrid_key(),
        {*sendgrid._EFFECTS, *sendgrid._GROUP_EFFECTS, "bounce", "dropped"},
    ),
}

every_page = pytest.mark.parametrize("name", PAGES)


def rows(name: str, head: str) -> Iterator[tuple[str, str]]:
    """Yield both cells of each row of the table whose first column has this head."""
    text = (ROOT / FOLDER / f"{name}.md").read_text(encoding="utf-8")
    table = text.partition(f"| {head} |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        first, _, second = line.strip("| ").partition(" | ")
        yield first, second


def test_each_page_is_in_the_overview() -> None:
    overview = (ROOT / "docs/how-to/other-providers.md").read_text(encoding="utf-8")
    assert {each.stem for each in (ROOT / FOLDER).iterdir()} == PAGES.keys()
    assert {*re.findall(r"\(providers/([\w-]+)\.md\)", overview)} == PAGES.keys()


@every_page
def test_the_receiver(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its endpoint has the name of the provider, and asks for what proves a request's origin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PAGES[name].variable, PAGES[name].value)
    entry = name.replace("-", "_")
    with closing(execute(read_files(f"{FOLDER}/{name}.md")["receiver.py"])["receiver"]) as receiver:
        assert [(each.name, each.provider.name) for each in receiver.entries] == [(entry, entry)]
        refused = receiver.admit(RequestHead("POST", f"{ENDPOINT}/{entry}", ()))
    assert refused.status == 401


@every_page
def test_the_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks for hookrow.toml and Django have what is required, and the page names the rest."""
    page, entry = PAGES[name], name.replace("-", "_")
    kind = built_in(entry)
    [credential, *_], required = credential_settings(kind.credential), [*kind.required_settings()]
    monkeypatch.setenv(page.variable, page.value)
    [block] = read_blocks(f"{FOLDER}/{name}.md", "toml")
    settings = tomllib.loads(block)["providers"]
    assert settings[entry].keys() <= {*kind.setting_names()}
    assert [each.removesuffix("_file") for each in settings[entry]] == required
    assert [each.name for each in read_entries(settings, {}, "hookrow.toml").entries] == [entry]
    project = execute(read_files(f"{FOLDER}/{name}.md")["project/settings.py"])["HOOKROW"]
    assert [each.lower() for each in project["PROVIDERS"][entry]] == required
    [of_django] = read_project_entries(project["PROVIDERS"])
    assert of_django.build().name == entry
    text = (ROOT / FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for setting in {*kind.setting_names()} - {credential, f"{credential}_file"}:
        assert re.search(rf"\b{setting}\b", text), setting
        assert re.search(rf"\b{setting.upper()}\b", text), setting


@pytest.mark.parametrize(
    "page", [str(each.relative_to(ROOT)) for each in sorted((ROOT / "docs").rglob("*.md"))]
)
def test_the_entries_in_every_page(page: str) -> None:
    """The command accepts each example with the table [providers]."""
    for block in read_blocks(page, "toml"):
        if providers := tomllib.loads(block).get("providers"):
            assert read_entries(providers, {}, page).entries


@every_page
def test_the_message_id(name: str) -> None:
    """The expressions are valid, and django-anymail is among the ways to send."""
    found = dict(rows(name, "sent with"))
    assert found["django-anymail"].startswith("`message.anymail_status")
    for code in found.values():
        compile(code.strip("`"), name, "exec")


@every_page
def test_the_events(name: str) -> None:
    """The table has those with an effect, and names those that are only logged last."""
    *recorded, ignored = rows(name, "event")
    assert ignored[1].startswith("none: they are logged as unsupported")
    documented = {event for row in recorded for event in re.findall("`(.+?)`", row[0])}
    assert documented == {*PAGES[name].events}
