"""What a fork leaves behind is renewed in the child, and only there."""

from __future__ import annotations

from command import run_script

# A process of its own does the forking: this one has threads, and a child of it would go on
# with the tests. The child ends as processes do, so that what runs at exit runs there as well.
FORK = """
import os, sys

def in_child(check):
    pid = os.fork()
    if pid == 0:
        check()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_renewed_in_the_child() -> None:
    """Everything that asked for it is renewed in a child, once a fork, and not in the parent."""
    run_script(
        FORK,
        """
        from hookrow.forks import renew_after_fork

        class Counter:
            renewed = 0
            def renew(self):
                self.renewed += 1

        counters = [Counter(), Counter()]
        for counter in counters:
            renew_after_fork(counter)

        def grandchild():
            assert [counter.renewed for counter in counters] == [2, 2]

        def child():
            assert [counter.renewed for counter in counters] == [1, 1]
            in_child(grandchild)

        in_child(child)
        assert [counter.renewed for counter in counters] == [0, 0]
        """,
    )


def test_not_kept_alive() -> None:
    """A thing that nobody uses any more is let go, not kept for a fork that may never come."""
    run_script(
        FORK,
        """
        import gc, weakref
        from hookrow.forks import renew_after_fork

        class Fatal:
            def renew(self):
                os._exit(1)

        thing = Fatal()
        gone = weakref.ref(thing)
        renew_after_fork(thing)
        del thing
        gc.collect()
        assert gone() is None
        in_child(lambda: None)
        """,
    )


def test_a_receiver_on_both_sides() -> None:
    """A receiver that is built and used before a fork serves in the child and in the parent."""
    run_script(
        FORK,
        """
        from hookrow import Head, Postmark, Receiver, Request
        from hookrow.stores.memory import MemoryStore

        store = MemoryStore({1: {"email": "ada@example.com"}})
        receiver = Receiver(Postmark("secret"), store)
        body = (
            b'{"RecordType":"SubscriptionChange","Recipient":"ada@example.com",'
            b'"SuppressSending":true,"SuppressionReason":"HardBounce"}'
        )
        request = Request(Head("POST", "/provider/webhooks", ()), body)

        def serve():
            for _ in range(3):
                assert receiver(request).result(20).status == 200
            assert store.subscribers[1]["suppression_reason"] == "HardBounce"

        in_child(serve)
        serve()
        in_child(serve)
        serve()
        """,
    )


def test_figures_on_both_sides() -> None:
    """Figures that were asked for before a fork are counted in the child, too."""
    run_script(
        FORK,
        """
        from datetime import UTC, datetime
        from hookrow.figures import Figures, Period
        from hookrow.stores.memory import MemoryStore

        figures = Figures(MemoryStore())

        def ask():
            seen = figures.overview(Period.DAY, datetime.now(UTC))
            assert seen.health == "No notification has come yet."

        ask()
        in_child(ask)
        ask()
        """,
    )


def test_where_there_is_no_fork() -> None:
    """Where the system has no fork there is nothing to do: things ask, and live on."""
    run_script(
        FORK,
        """
        del os.fork, os.register_at_fork
        from hookrow.batch import GroupCommit
        commit = GroupCommit(lambda items: items)
        assert commit.submit(1).result(20) == 1
        """,
    )
