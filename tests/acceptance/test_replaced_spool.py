"""Several processes share a spool whose file is replaced again and again."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import sleep

import pytest

from hookrow._receiver import spool_file
from hookrow._receiver.spool import Spool
from wire import PATIENCE

pytestmark = pytest.mark.never_flaky

WRITERS = 3

NUMBER = 200
"""How many notifications each process puts into the spool."""

PUT = """
import sys
from datetime import UTC, datetime
from hookrow import Arrival
from hookrow._receiver.spool import Spool

path, writer, number = sys.argv[1:]
spool = Spool(path)
for n in range(int(number)):
    spool.put([Arrival((), f"{writer} {n}".encode(), datetime.now(UTC))])
"""


def test_no_process_writes_to_a_file_that_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them notices, and nothing that was put is missing or counted twice.

    The file is replaced as if it was damaged, but is not, so that everything can be copied.
    """
    monkeypatch.setattr(spool_file, "_is_damaged", lambda _: True)
    path = tmp_path / "spool.db"
    spool = Spool(path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PUT, str(path), str(writer), str(NUMBER)], stderr=subprocess.PIPE
        )
        for writer in range(WRITERS)
    ]
    while any(each.poll() is None for each in processes):
        with spool.drained() as alone:
            if alone:
                with suppress(TimeoutError):  # the others use the file all the time
                    spool._file._replace()
        sleep(0.01)
    errors = [each.communicate(timeout=PATIENCE)[1] for each in processes]
    replaced = len([*tmp_path.glob("*.damaged-*")])
    print(f"{replaced} times replaced; {spool.count()} in the spool")
    assert errors == [b""] * WRITERS
    assert replaced >= 2
    entries = spool.after(0, limit=WRITERS * NUMBER + 1)
    expected = {f"{writer} {n}".encode() for writer in range(WRITERS) for n in range(NUMBER)}
    assert {each.body for each in entries} == expected
    assert {each.attempts for each in entries} == {1}
