"""The databases and the spool of each release, from which its users upgrade.

A folder has what a release wrote: a database for each of `PLACES`, as the database's own program
dumps it (SQLite's is the file), the state in which the release left it, and one spool.
`pytest tests/upgrades --write-release` writes the folder of the current version, with the programs
`pg_dump` and `mariadb-dump`, before that version is released.
"""

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from django.core.management import call_command
from sqlalchemy import inspect, make_url, text

import django_host
import hookrow.django
import world
from databases import NAMES, kind_of, places
from engines import opened
from hookrow import Postmark, Receiver, Schema, testing
from hookrow._migrations import upgrade
from hookrow.stores._log import Query, RequestHour, RequestKind
from hookrow.stores.sql import SQLStore
from times import DAY, HOUR
from wire import ADA, ADAS, SECRET, free_port

FILES = Path(__file__).parent / "files"
RELEASES = sorted(each.name for each in FILES.iterdir())

PLACES = (*NAMES, *places("django"))
"""The databases that hookrow's scripts or Django's migrations created."""

BEA, BEAS = "bea+news@example.org", "0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802"
ZOE, ZOES = "zoë.müller@example.net", "c47e2f18-9b06-4d5a-b3f2-18d05a7ce603"
CARL, CARLS = "Carl.Upper@Example.COM", "91b8e3d5-07fc-4a62-bc49-e52f6d30a704"
DORA = "dora@xn--exmple-cua.example"
GIL, GILS = "gil@example.com", "e8f40b27-6c93-4e1d-a5d8-b9127c64f306"

LATER = "b1f6c2aa-30e7-4d0c-9f52-6f1f0d7e8a07"
"""The id of a message whose dispatch does not exist yet: its notifications are parked."""

SPOOLED = "f0a3c1de-8e0b-4b7b-8f43-4d1f6a2b9c08"
"""The id of a message whose delivery is in the spool."""

_DJANGO_APPS = ("hookrow", "hookrow_tables")


@dataclass(frozen=True, slots=True)
class Place:
    """A database, to which `hookrow db upgrade` or `manage.py migrate` applies."""

    name: str
    url: str

    @property
    def is_django(self) -> bool:
        """Whether Django's migrations create the tables."""
        return self.name.startswith("django-")

    def upgrade(self) -> None:
        """Create the tables, or bring them up to date, as their users do."""
        if not self.is_django:
            upgrade(self.url, Schema())
            return
        with django_host.default(self.url):
            for app in _DJANGO_APPS:
                call_command("migrate", app, verbosity=0)

    @contextmanager
    def store(self) -> Iterator[SQLStore]:
        """Open the store of the tables."""
        if self.is_django:
            with django_host.default(self.url):
                yield hookrow.django.store()
            return
        with closing(SQLStore(self.url)) as store:
            yield store


_CASTS = re.compile(r"::[a-z ]+(?:\[\])?|[()]")
"""What PostgreSQL writes in other places of a condition after it was dumped and restored."""


def describe_tables(place: Place) -> dict[str, Any]:
    """Describe the columns and indexes of hookrow's tables, each in any order."""
    indexes = text(kind_of(place.url).indexes)
    with opened(place.url) as engine, engine.connect() as connection:
        found = inspect(engine)
        return {
            table: (
                {
                    (each["name"], str(each["type"]), each["nullable"], each["default"])
                    for each in found.get_columns(table)
                },
                {
                    _CASTS.sub("", str(row[0]))
                    for row in connection.execute(indexes, {"name": table})
                },
            )
            for table in found.get_table_names()
            if table.startswith("hookrow_")
        }


def read_state(place: Place) -> dict[str, Any]:
    """Return the rows, the log, the changes and the counts, in the types of JSON."""
    with place.store() as store:
        assert store.log is not None
        while store.log.count_hours():
            pass
        log = store.log.oldest(Query(), limit=100)
        cursors = [each.cursor for each in store.changes()]
        counts = store.log.counts(datetime(2026, 1, 1, tzinfo=UTC), 100 * 365 * DAY)
    rows = world.rows(place.url)
    state: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode({"rows": rows, "log": log, "cursors": cursors, "counts": counts})
    )
    return state


def use(store: SQLStore, at: datetime) -> None:
    """Receive notifications, suppress, lift and erase, as an application does for a while."""
    with _receiving(Postmark(SECRET), store) as receiver:
        for body, status in (
            (testing.delivery(ADA, ADAS, at=at - HOUR), 200),
            (testing.delivery(ADA, ADAS, at=at - HOUR), 200),  # the same again
            (testing.opening(ADA, ADAS, at=at), 200),
            (testing.suppression(ZOE, ZOES, at=at), 200),
            (testing.reactivation(GIL, GILS, at=at), 200),
            (testing.delivery(CARL, CARLS, at=at), 200),
            (testing.opening(BEA, ADAS, at=at), 400),
            (testing.delivery(ADA, LATER, at=at), 404),
        ):
            assert receiver.record_body(msgspec.json.encode(body)).status == status
        receiver.suppress(DORA, reason="Asked by phone", by="ada")
        receiver.suppress(BEA, reason="Asked by phone", by="ada", message_id=BEAS)
        receiver.lift(BEA, reason="Asked again", by="ada")
    with _receiving({"news": Postmark(SECRET), "shop": Postmark(SECRET)}, store) as receiver:
        opened = msgspec.json.encode(testing.opening(ZOE, ZOES, at=at))
        assert receiver.record_body(opened, "shop").status == 200
    assert store.log is not None
    hour = at.replace(minute=0, second=0, microsecond=0)
    store.log.add_requests({RequestHour(RequestKind.WRONG_SECRET, "", hour): 3})
    store.changes()
    store.forget(CARL)


@contextmanager
def _receiving(providers: Any, store: SQLStore) -> Iterator[Receiver]:  # noqa: ANN401 - see Receiver
    with closing(Receiver(providers, store, sweep=True)) as receiver:
        yield receiver


def spool(file: Path, at: datetime) -> None:
    """Receive a delivery while the database cannot be reached."""
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    with closing(SQLStore(url)) as store:
        receiver = Receiver(Postmark(SECRET), store, sweep=True, spool=file)
        with closing(receiver):
            body = msgspec.json.encode(testing.delivery(ADA, SPOOLED, at=at))
            assert receiver.record_body(body).status == 503
            assert receiver.spool_state() is not None


def dump(place: Place, folder: Path, programs: Path) -> None:
    """Write a database into a folder. `programs` is the folder of PostgreSQL's programs."""
    file, url = _file(place.name, folder), make_url(place.url)
    match kind_of(place.url).name:
        case "sqlite":
            with closing(sqlite3.connect(str(url.database))) as database:
                database.execute("VACUUM")
            shutil.copy(str(url.database), file)
        case "postgres":
            program = [programs / "pg_dump", "--no-owner", "--no-privileges", "--inserts"]
            file.write_text(_output(*program, place.url))
        case _:
            socket = f"--socket={url.query['unix_socket']}"
            program = ["mariadb-dump", "--user=root", socket, "--skip-comments", "--hex-blob"]
            file.write_text(_output(*program, url.database))


def _output(*command: object) -> str:
    """Return a dump without the lines that only the database's own client understands."""
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("\\", "/*M!999999")))


def restore(place: Place, folder: Path) -> None:
    """Fill an empty database with that of a release."""
    file, kind = _file(place.name, folder), kind_of(place.url)
    if kind.name == "sqlite":
        shutil.copy(file, str(make_url(place.url).database))
    else:
        kind.execute(place.url, file.read_text())


def _file(place: str, folder: Path) -> Path:
    return folder / f"{place}.{'db' if place.endswith('sqlite') else 'sql'}"
