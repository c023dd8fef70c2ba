"""All faults of a mapping at once: in hookrow.toml and with `--app`; its lines make it pass."""

import re
from pathlib import Path

import pytest

from command import Command
from ordinary import create_ordinary
from wire import SECRET

HEAD = """\
secret = "{secret}"
database_url = "sqlite:///shop.db"

[tables]
subscriptions = false
log = false

"""

FIRST = """\
[tables.subscribers]
table = "people"

[tables.dispatches]
table = "sends"
"""

APP = f"""\
from hookrow import Postmark, Receiver, Role, Schema
from hookrow.stores.sql import SQLStore

schema = Schema(
    LINES
    subscriptions=None,
    log=None,
)
receiver = Receiver(Postmark("{SECRET}"), SQLStore("sqlite:///shop.db", schema))
"""


@pytest.fixture
def shop(command: Command) -> Command:
    """Return the command in a folder with an ordinary pair of tables."""
    create_ordinary(f"sqlite:///{command.folder}/shop.db")
    return command


def lines_to_write(output: str, place: str) -> str:
    """Return the lines after the sentence that introduces them, up to the next result."""
    match = re.search(
        rf"To correct the mapping, write {place}:\n\n(.*?)(?:^\w+ {{2,}}|\Z)",
        output,
        re.DOTALL | re.MULTILINE,
    )
    assert match, output
    return match[1]


@pytest.mark.parametrize("first", ["check", "serve"])
def test_settings_file(shop: Command, first: str) -> None:
    """One run of `check` or `serve` finds everything; with its lines, the next one passes."""
    file = shop.folder / "hookrow.toml"
    head = HEAD.format(secret=SECRET)
    file.write_text(head + FIRST)
    done = shop.call(first)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert (
        "8 faults:\n- The table 'people' has no column 'email'. Did you mean 'address'? " in output
    )
    assert 'Write email = "address".\n' in output
    assert (
        "It is optional: with suppression_changed_at = false, the change that arrives last counts."
        in output
    )
    file.write_text(head + lines_to_write(output, "in hookrow.toml"))
    done = shop.call("check")
    assert done.returncode == 0, done.stdout
    assert "All tables and columns exist." in done.stdout


def test_app(shop: Command) -> None:
    """With `--app`, the lines are those of the module."""
    module = Path(shop.folder) / "faulty_shop.py"
    module.write_text(APP.replace("LINES", 'subscribers=Role("people"), dispatches=Role("sends"),'))
    done = shop.run("--app", "faulty_shop:receiver", "check")
    assert done.returncode == 1
    assert "8 faults:\n- The table 'people' has no column 'email'." in done.stdout
    module.write_text(APP.replace("LINES", lines_to_write(done.stdout, "in the Schema")))
    done = shop.run("--app", "faulty_shop:receiver", "check")
    assert done.returncode == 0, done.stdout


def test_server_without_tables_of_hookrow(command: Command, empty_postgres_url: str) -> None:
    """`serve` names the missing log, which it creates only in a file, and the host's faults."""
    create_ordinary(empty_postgres_url)
    head = HEAD.format(secret=SECRET).replace("log = false\n", "")
    head = head.replace("sqlite:///shop.db", empty_postgres_url)
    (command.folder / "hookrow.toml").write_text(head + FIRST)
    done = command.call("serve")
    assert done.returncode == 1
    assert "hookrow's tables are not created yet. Run `hookrow db upgrade`" in done.stderr
    assert "\n8 faults:\n- The table 'people' has no column 'email'." in done.stderr


def test_faults_of_the_file(shop: Command) -> None:
    """Names that do not exist and values of a wrong type are listed together."""
    (shop.folder / "hookrow.toml").write_text(
        "[tables]\nmesages = 1\n[tables.subscribers]\ntable = 'people'\nfold = 'lowr'\n"
        "[tables.dispatches]\ntable = 7\n"
    )
    done = shop.call("check")
    assert done.stderr == (
        "Error: hookrow.toml: [tables]: 3 faults:\n"
        "- unknown role 'mesages'. Did you mean 'messages'?\n"
        "- unknown fold 'lowr'. Did you mean 'lower'?\n"
        "- Expected `str`, got `int` - at `$.dispatches.table`.\n"
    )
