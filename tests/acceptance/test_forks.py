"""Forks: everything that was built and used before serves in the child and in the parent.

A process of its own does the forking: that of the tests has threads, and a child of it would
go on with the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from command import run_script
from hookrow.spool import Spool

LIMIT = 60.0
"""In seconds; how long a process may take on a busy machine."""

FORK = """
import os, sys, time

def in_child(check):
    pid = os.fork()
    if pid == 0:
        check()
        sys.exit(0)  # as processes end: what runs at exit runs there as well
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""

SPOOL = """
import os, sys
from datetime import UTC, datetime
from hookrow import Arrival
from hookrow.spool import Spool

spool = Spool(sys.argv[1])

def put(*bodies):
    spool.put([Arrival(None, body.encode(), datetime.now(UTC)) for body in bodies])
"""


def begin(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Run a script with a spool in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", f"{SPOOL}{script}", *map(str, arguments)])


def test_receiver() -> None:
    """A receiver, its hooks and the statistics work on both sides, each with threads of its own."""
    run_script(
        FORK,
        """
        from datetime import UTC, datetime
        from hookrow import Head, Postmark, Receiver, Request
        from hookrow.figures import Figures, Period
        from hookrow.stores.memory import MemoryStore

        store = MemoryStore({1: {"email": "ada@example.com"}})
        figures = Figures(MemoryStore())
        calls = []
        receiver = Receiver(
            Postmark("secret"), store, on_recorded=lambda *_: calls.append(os.getpid())
        )
        body = (
            b'{"RecordType":"SubscriptionChange","Recipient":"ada@example.com",'
            b'"SuppressSending":true,"SuppressionReason":"HardBounce"}'
        )
        request = Request(Head("POST", "/provider/webhooks", ()), body)

        def serve():
            calls.clear()
            for _ in range(3):
                assert receiver(request).result(20).status == 200
            assert store.subscribers[1]["suppression_reason"] == "HardBounce"
            seen = figures.overview(Period.DAY, datetime.now(UTC))
            assert seen.health == "No notification has come yet."

        def end():
            serve()
            receiver.close(20)
            assert calls == [os.getpid()] * 3

        in_child(end)
        serve()
        in_child(end)
        end()
        """,
    )


def test_drained_spool(tmp_path: Path) -> None:
    """A child that was forked while a spool was drained does not keep others from draining."""
    run_script(
        f"""
        import os
        from hookrow.spool import Spool

        spool = Spool({str(tmp_path / "spool.db")!r})
        read, write = os.pipe()
        with spool.drained() as alone:
            assert alone
            pid = os.fork()
            if pid == 0:
                os.close(write)
                os.read(read, 1)  # until the parent is done
                os._exit(0)
        try:
            with spool.drained() as alone:
                assert alone
        finally:
            os.close(write)
            os.waitpid(pid, 0)
        """
    )


def test_spool_of_several_processes(tmp_path: Path) -> None:
    """Processes may create and fill one spool at once; what a killed one has put is kept.

    Only one of them drains it.
    """
    path = tmp_path / "spool.db"
    script = "for number in range(20): put(f'{sys.argv[2]}-{number}', 'all')\n"
    script += "if sys.argv[2] == '0': os.kill(os.getpid(), 9)"
    processes = [begin(script, path, number) for number in range(3)]
    assert [process.wait(LIMIT) for process in processes] == [-9, 0, 0]
    found = Spool(path).after(0, limit=1000)
    assert len(found) == 61
    assert sum(each.attempts for each in found) == 120
    with Spool(path).drained():
        assert begin("with spool.drained() as alone: sys.exit(alone)", path).wait(LIMIT) == 0
