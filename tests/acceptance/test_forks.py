"""Forks: objects that were created and used before a fork work in the child and in the parent.

A separate process forks, because the process of the tests has threads, and its child would
continue to run the tests.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import world
from command import run_script
from hookrow._receiver.spool import Spool
from wire import DELIVERY, PATIENCE

pytestmark = pytest.mark.never_flaky


def test_receiver(postgres_url: str, sqlite_url: str) -> None:
    """A receiver, its hooks and the statistics work in both processes.

    Each process has its own threads and connections, and the parent keeps its earlier ones.
    """
    world.fill(postgres_url)
    printed = run_script(
        f"url, quiet, body = {postgres_url!r}, {sqlite_url!r}, {DELIVERY!r}",
        """
        import os, sys, warnings
        from datetime import UTC, datetime
        from hookrow import RequestHead, Postmark, Receiver, Request
        from hookrow._statistics import Statistics
        from hookrow.stores.sql import SQLStore

        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        store, other, calls = SQLStore(url), SQLStore(quiet), []
        statistics = Statistics(other)
        receiver = Receiver(
            Postmark("secret"), store, on_recorded=lambda *_: calls.append(os.getpid())
        )
        head = RequestHead("POST", "/provider/webhooks", [(b"X-Provider-Secret", b"secret")])

        def serve():
            calls.clear()
            statuses = [receiver(Request(head, body)).status for _ in range(3)]
            present = statistics.present(datetime.now(UTC))
            with store.database.reading() as connection:
                [(backend,)] = connection.fetch("SELECT pg_backend_pid()")
            print(backend, statuses, present.health, flush=True)

        def end():
            serve()
            receiver.close(20)
            store.close()
            other.close()
            print(calls == [os.getpid()] * 3, flush=True)

        def in_child():
            pid = os.fork()
            if pid == 0:
                end()
                sys.exit(0)  # a normal exit, which runs exit handlers
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

        in_child()
        serve()
        in_child()
        end()
        """,
    )
    first, alone, parent, second, alone_again, parent_again, at_last = printed.splitlines()
    backends = [line.partition(" ")[0] for line in (first, parent, second, parent_again)]
    assert backends[1] == backends[3]
    assert len({*backends}) == 3
    served = "[200, 200, 200] No notification has been received yet."
    assert [line.partition(" ")[2] for line in (first, parent, second, parent_again)] == [
        served
    ] * 4
    assert (alone, alone_again, at_last) == ("True", "True", "True")


def test_database_in_memory() -> None:
    """A child process gets a sentence, even in the midst of a transaction; the parent continues."""
    printed = run_script(
        """
        import os, sys, warnings
        from threading import Event, Thread
        from hookrow.stores import Unavailable
        from hookrow.stores.sql import SQLStore

        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        used, unused = SQLStore("sqlite://"), SQLStore("sqlite://")
        began, done = Event(), Event()

        def hold():
            with used.database.transaction() as connection:
                connection.execute("INSERT INTO hookrow_lists (name) VALUES ('news')")
                began.set()
                done.wait()

        thread = Thread(target=hold)
        thread.start()
        began.wait()
        if (child := os.fork()) == 0:
            for store in (used, unused):
                try:
                    store.probe()
                except Unavailable as error:
                    print(error, flush=True)
                store.close()
            with SQLStore("sqlite://").reading():
                pass
            sys.exit(0)  # a normal exit, which runs exit handlers
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        done.set()
        thread.join()
        with used.database.reading() as connection:
            print(connection.fetch("SELECT name FROM hookrow_lists"))
        unused.probe()
        """
    )
    *refused, rows = printed.splitlines()
    assert [line.partition(":")[0] for line in refused] == [
        "A database in memory belongs to the process that created it, not to its child processes"
    ] * 2
    assert rows == "[('news',)]"


def test_event_loop_of_hooks() -> None:
    """The child starts its own loop and leaves the parent's, whose selector both share, alone."""
    printed = run_script(
        """
        import asyncio, os, sys, warnings
        from datetime import UTC, datetime
        from time import sleep
        from hookrow import Arrival, Recorded
        from hookrow._receiver.hooks import Hooks

        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # of a fork with threads
        calls = []

        async def on_recorded(*_):
            await asyncio.to_thread(sleep, 0.01)  # another thread wakes the loop
            calls.append((os.getpid(), asyncio.get_running_loop()))

        hooks = Hooks({Recorded: on_recorded})

        def call():
            calls.clear()
            hooks(Arrival((), b"", datetime.now(UTC)), Recorded(()))
            while not calls:
                sleep(0.01)
            return calls[0]

        pid, loop = call()
        if (child := os.fork()) == 0:
            own_pid, own_loop = call()
            print(own_pid == os.getpid(), own_loop is not loop, flush=True)
            hooks.close()
            sys.exit(0)  # a normal exit, which runs exit handlers
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(call() == (pid, loop))
        hooks.close()
        """
    )
    assert printed.split() == ["True", "True", "True"]


def test_drained_spool(tmp_path: Path) -> None:
    """A child that was forked during a drain does not prevent other processes from draining."""
    printed = run_script(
        f"path = {str(tmp_path / 'spool.db')!r}",
        """
        import os
        from hookrow._receiver.spool import Spool

        spool = Spool(path)
        read, write = os.pipe()
        with spool.drained() as before:
            pid = os.fork()
            if pid == 0:
                os.close(write)
                os.read(read, 1)  # until the parent is done
                os._exit(0)
        with spool.drained() as after:
            print(before, after)
        os.close(write)
        os.waitpid(pid, 0)
        """,
    )
    assert printed == "True True\n"


def test_spool_of_several_processes(tmp_path: Path) -> None:
    """Concurrent processes may create and fill one spool; the entries of a killed one are kept."""
    script = """if True:
        import os, sys
        from datetime import UTC, datetime
        from hookrow import Arrival
        from hookrow._receiver.spool import Spool

        spool = Spool(sys.argv[1])
        for number in range(20):
            bodies = f"{sys.argv[2]}-{number}", "all"
            spool.put([Arrival((), body.encode(), datetime.now(UTC)) for body in bodies])
        if sys.argv[2] == "0":
            os.kill(os.getpid(), 9)
        """
    path = tmp_path / "spool.db"
    processes = [
        subprocess.Popen([sys.executable, "-c", script, path, str(number)]) for number in range(3)
    ]
    assert [process.wait(2 * PATIENCE) for process in processes] == [-9, 0, 0]
    entries = Spool(path).after(0, limit=1000)
    assert len(entries) == 61
    assert sum(entry.attempts for entry in entries) == 120
