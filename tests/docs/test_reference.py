"""The reference is complete: settings, arguments, commands, refusals, outcomes, public names."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

import hookrow
from hookrow import Refusal
from hookrow.cli import hookrow as command
from hookrow.cli.settings import read_file
from hookrow.core.result import PARKED, Result
from session import ROOT, read_blocks

PAGES = ROOT / "docs" / "reference"
SETTINGS, OUTCOMES, COMMAND = (
    (PAGES / f"{page}.md").read_text(encoding="utf-8")
    for page in ("settings", "outcomes", "command")
)
API = "".join(page.read_text(encoding="utf-8") for page in (PAGES / "api").glob("*.md"))
HELP = dict(
    re.findall(r"^## (hookrow[a-z ]*)\n\n```text\n(.*?)\n```$", COMMAND, re.DOTALL | re.MULTILINE)
)

OBJECTS = {
    "hookrow.asgi": ["ASGI"],
    "hookrow.wsgi": ["WSGI"],
    "hookrow.fastapi": ["router"],
    "hookrow.flask": ["blueprint"],
    "hookrow.django.receiver": ["receiver", "store"],
    "hookrow.dashboard": ["Dashboard"],
    "hookrow.stores.sql": ["SQLStore"],
    **{
        name: import_module(name).__all__
        for name in ("hookrow", "hookrow.metrics", "hookrow.tracing")
    },
}
"""The public objects, by module."""

MODULES = {"hookrow.testing", "hookrow.pytest_plugin"}
"""Modules that are documented as a whole."""


def contexts(group: click.Group, parent: click.Context) -> Iterator[tuple[str, click.Context]]:
    """Yield each command with the context in which it prints its help."""
    yield parent.command_path, parent
    for name, member in group.commands.items():
        context = click.Context(member, parent=parent, info_name=name)
        if isinstance(member, click.Group):
            yield from contexts(member, context)
        else:
            yield context.command_path, context


COMMANDS = dict(
    contexts(
        command,
        click.Context(command, info_name="hookrow", terminal_width=80, **command.context_settings),
    )
)


def section(page: str, title: str) -> str:
    """Return the text below a heading."""
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_setting_and_its_variable_are_in_the_table() -> None:
    table = section(SETTINGS, "Settings of the command").partition("```")[0]
    for parameter in command.commands["serve"].params:
        assert f"`{parameter.name}`" in table
        for variable in [parameter.envvar] if isinstance(parameter.envvar, str) else []:
            assert f"`{variable}`" in table


def test_the_example_of_a_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "hookrow.toml"
    file.write_text(read_blocks("docs/reference/settings.md", "toml")[0])
    values, schema = read_file(file, command)
    assert values["mount_path"] == "/mail"
    assert schema.subscriptions is None


def test_every_argument_of_the_receiver_is_in_the_table() -> None:
    table = section(SETTINGS, "Arguments of `Receiver`")
    for name, parameter in inspect.signature(hookrow.Receiver).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert f"`{name}" in table, name


def test_every_command_is_in_the_table() -> None:
    documented = re.findall(r"^\| `(hookrow [\w ]+)` \|", COMMAND, re.MULTILINE)
    groups = {
        name
        for name, context in COMMANDS.items()
        if isinstance(context.command, click.Group) and not context.command.invoke_without_command
    }
    assert set(documented) == COMMANDS.keys() - groups


@pytest.mark.parametrize("name", sorted({*COMMANDS, *HELP}))
def test_the_help_of_every_command_is_on_the_page(name: str) -> None:
    """To update the page, copy the output of `--help`, printed 80 columns wide."""
    documented, text = HELP.get(name, ""), COMMANDS[name].get_help()
    # Versions of click differ in the brackets around an optional command.
    assert documented.replace("[COMMAND]", "COMMAND") == text.replace("[COMMAND]", "COMMAND")


def test_every_refusal_is_in_the_table() -> None:
    for refusal in Refusal:
        text = re.sub(r"\{\w+\}", "...", refusal.text)
        assert f"| {refusal.status} | {f'`{text}`' if text else 'empty'} |" in OUTCOMES


def test_every_outcome_in_the_log_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| \d+ \| (yes)? ?\|", OUTCOMES, re.MULTILINE)
    assert rows == [(each.value, "yes" if each in PARKED else "") for each in Result]


def test_every_public_name_is_on_an_api_page() -> None:
    public = {f"{module}.{name}" for module, names in OBJECTS.items() for name in names}
    assert {*re.findall(r"^::: (.+)$", API, re.MULTILINE)} >= public | MODULES
