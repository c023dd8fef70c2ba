"""Runs HAProxy in front of database servers, with the settings that a page of the docs prints."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from nginx import installed, listening
from wire import eventually


@contextmanager
def balancing(
    settings: str, replaced: Mapping[str, str], port: int, folder: Path
) -> Iterator[None]:
    """Run HAProxy until the block ends, with some of the settings' texts replaced.

    It listens at the port.
    """
    for text, own in replaced.items():
        assert text in settings
        settings = settings.replace(text, own)
    file = folder / "haproxy.cfg"
    file.write_text(settings)
    command = [installed("haproxy", "haproxy"), "-db", "-f", file]
    with listening(command, port, folder / "haproxy.log"):
        yield


def wait_for_the_primary(url: str) -> None:
    """Wait until HAProxy has checked both servers of PostgreSQL: before, it uses them in turn."""

    def is_found() -> bool:
        with suppress(psycopg.OperationalError):
            return not any(_is_standby(url) for _ in range(4))
        return False

    eventually(is_found)


def _is_standby(url: str) -> bool:
    with psycopg.connect(url, autocommit=True, connect_timeout=3) as connection:
        cursor = connection.execute("SELECT pg_is_in_recovery()")
        return cursor.fetchone() == (True,)
