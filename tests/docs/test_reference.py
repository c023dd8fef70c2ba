"""The reference is complete: settings, arguments, commands, refusals, outcomes, public names."""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click
import pytest

import hookrow
from hookrow import Refusal
from hookrow._cli import hookrow as command
from hookrow._cli.entries import read_entries
from hookrow._cli.settings import read_file
from hookrow._core.result import PARKED, Result
from hookrow._server.settings import check_tenants, parsers_of, variable_of
from hookrow.providers._built_in import credential_settings
from hookrow.providers._registry import PROVIDER_NAMES, built_in
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

PACKAGE = Path(hookrow.__file__).parent

LISTED = dict(re.findall(r"^::: (.+)(?:\n +options:\n +members: \[(.*)\])?", API, re.MULTILINE))
"""The names on the pages of the API, with the members that a page selects, if it does."""

DOCUMENTED = {
    f"{name}.{member}" for name, members in LISTED.items() for member in members.split(", ")
}
DOCUMENTED |= {*LISTED}


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
        for variable in (
            [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or ()
        ):
            assert f"`{variable}`" in table


def test_the_example_of_a_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "hookrow.toml"
    file.write_text(read_blocks("docs/reference/settings.md", "toml")[0])
    found = read_file(file, command)
    assert found.defaults["serve"]["mount_path"] == "/mail"
    assert found.schema.subscriptions is None


def test_every_setting_of_an_entry_is_in_the_table(tmp_path: Path) -> None:
    text = section(SETTINGS, "Settings of the command").partition("### Several providers")[2]
    for provider in PROVIDER_NAMES:
        row = text.partition(f"| `{provider}` | ")[2]
        options = [f"`{each}`" for each in built_in(provider).options]
        first = ", ".join(
            f"`{each}`" for each in credential_settings(built_in(provider).credential)
        )
        others = [row.splitlines()[number].split(" | ")[1] for number, _ in enumerate(options, 1)]
        assert row.startswith(f"{first} | ")
        assert others == options
    assert f"`{variable_of('globex', 'signing_key')}` has" in text
    file = tmp_path / "hookrow.toml"
    file.write_text(read_blocks("docs/reference/settings.md", "toml")[1])
    found = read_file(file, command)
    entries = read_entries(found.providers, {}, str(file)).entries
    assert parsers_of(entries).tenants == {"acme": 1, "globex": 2}
    check_tenants(entries, found.schema)


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


def _public_modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules, with their files, in whose path nothing is internal.

    Django finds migrations and commands by their folders; nobody imports them.
    """
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found_by_django = "management" in parts or "migrations" in parts[:-1]
        if not found_by_django and not any(re.match("_(?!_init__)", part) for part in parts):
            yield ".".join(parts).removesuffix(".__init__"), path


def _public_names(file: Path) -> set[str]:
    """Return the names that a module defines or lists in `__all__`, without its logger."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                names.add(name)
            case ast.Assign(targets=[ast.Name("__all__")], value=listed):
                return {*ast.literal_eval(listed)}
            case ast.Assign(targets=targets):
                walked = chain.from_iterable(map(ast.walk, targets))
                names |= {each.id for each in walked if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
    return {name for name in names if name[0] != "_"} - {"logger"}


def test_every_public_name_is_on_an_api_page() -> None:
    """By its own path, as a name of `hookrow`, or with its whole module; no internal name is."""
    exported = {f"{module}.{name}" for name, module in hookrow._MODULES.items()}
    missing = {
        f"{module}.{name}"
        for module, file in _public_modules()
        if LISTED.get(module) != ""
        for name in _public_names(file)
    }
    assert missing - DOCUMENTED - exported == set()
    assert {f"hookrow.{name}" for name in hookrow.__all__} <= DOCUMENTED
    assert [name for name in DOCUMENTED if "._" in name] == []
