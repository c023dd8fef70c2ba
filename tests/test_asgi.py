"""ASGI by itself: what a server cannot be brought to do at will is done by hand here.

What any host does is in `hosts/host.py`, over real sockets.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Barrier, Event, Lock, Thread
from typing import get_type_hints

import msgspec
import pytest

from hookrow import Handler, Head, Postmark, Promise, Receiver, Request, Response, testing
from hookrow.asgi import ASGI, LARGEST_REST, Message, Scope
from hookrow.batch import GroupCommit
from hookrow.http import LARGEST_BODY
from hookrow.stores.memory import MemoryStore
from wire import ENDPOINT, PATIENCE, SECRET, TEXT, get, uvicorn_serving

DONE = Response(200, b"done", {"Content-Type": TEXT})

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@dataclass(slots=True)
class Promising:
    """A handler whose answers are all still to come: a test ends them."""

    blocking: bool = False
    futures: list[Promise[Response]] = field(default_factory=list)

    def admit(self, head: Head) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Promise[Response]:
        """Promise an answer."""
        del request
        self.futures.append(Promise())
        return self.futures[-1]


@dataclass(slots=True)
class Client:
    """One request by hand: `body` is what arrives in pieces, `None` that the client leaves."""

    body: Sequence[bytes | None] = (b"",)
    read: int = 0
    read_first: int = 0
    sent: list[Message] = field(default_factory=list)
    broken: Exception | None = None

    async def receive(self) -> Message:
        """Bring the next piece; wait for ever where there is none."""
        if self.read == len(self.body):
            await asyncio.Event().wait()
        piece = self.body[self.read]
        self.read += 1
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": self.read < len(self.body)}

    async def send(self, message: Message) -> None:
        """Take what is sent; fail where the connection is broken."""
        if self.broken is not None:
            raise self.broken
        if not self.sent:
            self.read_first = self.read
        self.sent.append(message)

    @property
    def status(self) -> int:
        """The status that was sent."""
        status: int = self.sent[0]["status"]
        return status


def scope(path: str = ENDPOINT, root_path: str = "", method: str = "POST", **headers: str) -> Scope:
    """Return what a server says of a request that has the right secret."""
    fields = {"x-provider-secret": SECRET} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": root_path,
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
    }


async def ask(app: ASGI, client: Client | None = None, about: Scope | None = None) -> Client:
    """Make one request; return the client with what was sent to it."""
    client = client or Client()
    await app(about or scope(), client.receive, client.send)
    return client


@pytest.fixture
def store() -> MemoryStore:
    """Make a store with one subscriber and one dispatch."""
    return MemoryStore(
        subscribers={1: {"email": "ada@example.com"}},
        dispatches={1: {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": None}},
    )


@pytest.fixture
def receiver(store: MemoryStore) -> Iterator[Receiver]:
    """Make a receiver."""
    receiver = Receiver(Postmark(SECRET), store)
    yield receiver
    receiver.close(PATIENCE)


class TestPath:
    def test_no_root_path(self, receiver: Receiver) -> None:
        """A server may leave the root path out: the specification lets it."""
        bare = scope()
        del bare["root_path"]
        assert asyncio.run(ask(ASGI(receiver), Client([b"{"]), bare)).status == 422


class TestHead:
    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ({}, "False"),
            ({"scheme": "http", "query_string": b"a=%2F\xff"}, "False a=%2Fÿ"),
            ({"scheme": "https"}, "True"),
        ],
    )
    def test_told(self, said: Scope, told: str) -> None:
        """Scheme and query may be left out; a query is handed over as it came."""

        class Echo(Promising):
            def __call__(self, request: Request) -> Promise[Response]:
                answered = super().__call__(request)
                said = f"{request.head.secure} {request.head.query}"
                answered.set_result(Response(200, said.strip().encode(), {}))
                return answered

        client = asyncio.run(ask(ASGI(Echo()), Client([b""]), {**scope(), **said}))
        assert client.sent[1]["body"] == told.encode()


class TestBody:
    @pytest.mark.parametrize(
        ("about", "status"),
        [
            (scope("/nowhere"), 404),
            (scope(method="PUT"), 405),
            (scope(x_provider_secret="wrong"), 401),
            (scope(content_length=str(LARGEST_BODY + 1)), 413),
            (scope(content_length="9" * 5000), 413),
        ],
    )
    def test_not_read(self, receiver: Receiver, about: Scope, status: int) -> None:
        """What the head decides is answered before a byte of the body is asked for."""
        client = asyncio.run(ask(ASGI(receiver), about=about))
        assert (client.status, client.read_first) == (status, 0)

    def test_no_more_is_read_than_may_be(self, receiver: Receiver) -> None:
        """A body that goes on is refused as soon as it is too large; some of it is thrown away.

        The answer is there before: only its end, which lets a server close, is behind that.
        """
        pieces = [b" " * LARGEST_BODY, b" ", *[b" " * (LARGEST_REST // 4)] * 6]
        client = asyncio.run(ask(ASGI(receiver), Client(pieces)))
        assert (client.status, client.read_first, client.read) == (413, 2, 6)
        assert [each.get("more_body") for each in client.sent] == [None, True, None]

    def test_nothing_more_comes(self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rest of a body is not waited for any longer than that."""
        monkeypatch.setattr("hookrow.asgi.SLOWEST_REST", 0.01)
        about = scope(content_length=str(LARGEST_BODY + 1))
        assert len(asyncio.run(ask(ASGI(receiver), Client([]), about)).sent) == 3

    @pytest.mark.parametrize("length", ["", "x", "-1", "1, 1"])
    def test_length_that_is_none(self, receiver: Receiver, length: str) -> None:
        """A length that a server should not have let in does not count: what comes does."""
        client = asyncio.run(ask(ASGI(receiver), Client([b"{"]), scope(content_length=length)))
        assert client.status == 422

    @pytest.mark.parametrize("body", [[None], [b"{", None]])
    def test_client_that_leaves(self, receiver: Receiver, body: Sequence[bytes | None]) -> None:
        """Nothing is sent to a client that left before it had said all."""
        assert asyncio.run(ask(ASGI(receiver), Client(body))).sent == []

    def test_pieces(self, receiver: Receiver, store: MemoryStore) -> None:
        """A body may come in any pieces, empty ones too."""
        body = _delivery()
        pieces = [b"", body[:1], b"", body[1:], b""]
        assert asyncio.run(ask(ASGI(receiver), Client(pieces))).status == 200
        assert store.dispatches[1]["delivered_at"] == AT


class TestAnswer:
    def test_as_the_specification_has_it(self) -> None:
        """A response is two messages: status and headers, names in lower case; then the body."""
        promising = Promising()

        async def talk() -> Client:
            about = scope(X_Request_Id="r-1")
            task = asyncio.create_task(ask(ASGI(promising), about=about))
            await _until(lambda: promising.futures)
            promising.futures[0].set_result(DONE)
            return await task

        assert asyncio.run(talk()).sent == [
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", TEXT.encode()),
                    (b"content-length", b"4"),
                    (b"x-request-id", b"r-1"),
                ],
            },
            {"type": "http.response.body", "body": b"done", "more_body": False},
        ]

    @pytest.mark.parametrize("error", [OSError("gone"), ConnectionResetError(), BrokenPipeError()])
    def test_client_that_is_gone(self, receiver: Receiver, error: OSError) -> None:
        """What a server raises where the client is gone is nobody's fault."""
        client = Client([b"{"], broken=error)
        assert asyncio.run(ask(ASGI(receiver), client)).sent == []

    def test_other_errors(self, receiver: Receiver) -> None:
        """Any other error of a server is not hidden from it."""
        client = Client([b"{"], broken=RuntimeError("a fault"))
        with pytest.raises(RuntimeError, match="a fault"):
            asyncio.run(ask(ASGI(receiver), client))

    def test_future_that_fails(self) -> None:
        """A handler's future that ends with an error ends the request: nobody waits for ever."""

        async def talk() -> None:
            promising = Promising()
            app = ASGI(promising)
            tasks = [asyncio.create_task(ask(app)) for _ in range(2)]
            await _until(lambda: len(promising.futures) == 2)
            promising.futures[0].set_exception(LookupError("a fault"))
            promising.futures[1].set_result(DONE)
            async with asyncio.timeout(1):
                with pytest.raises(LookupError):
                    await tasks[0]
                assert (await tasks[1]).status == 200

        asyncio.run(talk())


class TestLoop:
    def test_one_wake_up(self) -> None:
        """Futures that end together wake the event loop once."""
        assert asyncio.run(_wake_ups(Promising(), _end_all)) == 1

    def test_few_wake_ups(self) -> None:
        """A group of a real receiver's wakes the loop a few times, not once for each member."""
        together = Event()

        def respond(requests: Sequence[Request]) -> list[Response]:
            together.wait(PATIENCE)
            return [DONE] * len(requests)

        handler = _Grouping(GroupCommit(respond))
        try:
            wake_ups = asyncio.run(_wake_ups(handler, lambda _: together.set()))
        finally:
            handler.commit.close(PATIENCE)
        assert 1 <= wake_ups <= 10

    def test_futures_that_have_ended(self) -> None:
        """A future that has ended when it is handed over is answered at once."""

        class Hasty(Promising):
            def __call__(self, request: Request) -> Promise[Response]:
                future = super().__call__(request)
                future.set_result(DONE)
                return future

        assert asyncio.run(ask(ASGI(Hasty()))).status == 200

    def test_closed_loop(self, caplog: pytest.LogCaptureFixture) -> None:
        """A loop that closes under those who wait disturbs neither the writer nor the next loop."""
        caplog.set_level(logging.ERROR, logger="concurrent.futures")
        go_on = Event()
        ended: list[int] = []

        def respond(requests: Sequence[Request]) -> list[Response]:
            go_on.wait(PATIENCE)
            ended.append(len(requests))
            return [DONE] * len(requests)

        commit = GroupCommit(respond)
        app = ASGI(_Grouping(commit))
        loop = asyncio.new_event_loop()
        waiting = [loop.create_task(ask(app)) for _ in range(3)]
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
        go_on.set()
        assert asyncio.run(ask(app)).status == 200
        commit.close(PATIENCE)
        assert sum(ended) == 4
        assert caplog.records == []
        for task in waiting:
            _forget(task)

    def test_loops_in_turn(self, receiver: Receiver) -> None:
        """One application serves one loop after the other, as tests of a host make it do."""
        app = ASGI(receiver)
        for _ in range(5):
            assert asyncio.run(ask(app, Client([_delivery()]))).status == 200

    def test_loops_at_once(self) -> None:
        """Loops of two threads that ask at the same time each get their own answer."""
        reached, go_on = Event(), Event()
        first = Lock()

        class Contended(ASGI):
            """Stands still for the first loop, once it is known and not used yet."""

            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name == "_waker" and value is not None and first.acquire(blocking=False):
                    reached.set()
                    go_on.wait(PATIENCE)

        handler = _Grouping(GroupCommit(lambda requests: [DONE] * len(requests)))
        app = Contended(handler)

        async def once() -> int:
            async with asyncio.timeout(PATIENCE):
                return (await ask(app)).status

        with ThreadPoolExecutor(1) as thread:
            earlier = thread.submit(asyncio.run, once())
            reached.wait(PATIENCE)
            assert asyncio.run(once()) == 200
            go_on.set()
            assert earlier.result(PATIENCE) == 200
        handler.commit.close(PATIENCE)

    def test_cancelled(self, caplog: pytest.LogCaptureFixture) -> None:
        """A request that is cancelled while it waits leaves the others alone, and no trace."""
        promising = Promising()
        app = ASGI(promising)

        async def talk() -> Client:
            gone = asyncio.create_task(ask(app))
            stays = asyncio.create_task(ask(app))
            await _until(lambda: len(promising.futures) == 2)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            for future in promising.futures:
                future.set_result(DONE)
            return await stays

        assert asyncio.run(talk()).status == 200
        assert caplog.records == []

    def test_cancelled_is_recorded(self, receiver: Receiver, store: MemoryStore) -> None:
        """What was cancelled while it waited for the database is recorded all the same."""

        async def talk() -> None:
            with store._lock:
                task = asyncio.create_task(ask(ASGI(receiver), Client([_delivery()])))
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await _until(lambda: "delivered_at" in store.dispatches[1])

        asyncio.run(talk())


class TestBlocking:
    @pytest.mark.parametrize("call", ["admit", "__call__"])
    def test_runs_in_a_thread(self, call: str) -> None:
        """A handler that blocks, in either call, holds up no other request."""
        barrier = Barrier(2)

        class Slow(Promising):
            def admit(self, head: Head) -> Response | None:
                del head
                if call == "admit":
                    barrier.wait(PATIENCE)
                return None

            def __call__(self, request: Request) -> Promise[Response]:
                if call == "__call__":
                    barrier.wait(PATIENCE)
                future = super().__call__(request)
                future.set_result(DONE)
                return future

        async def talk() -> tuple[Client, Client]:
            app = ASGI(Slow(blocking=True))
            return await asyncio.gather(ask(app), ask(app))

        # Neither passes the barrier before the other has come.
        assert [client.status for client in asyncio.run(talk())] == [200, 200]

    def test_all_stuck(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Who waits for too long is answered 503, also for a thread; the host's have their own.

        The log names the request.
        """
        monkeypatch.setattr("hookrow.asgi.THREADS", 2)
        monkeypatch.setattr("hookrow.asgi.SLOWEST_CALL", 0.2)
        go_on, begun = Event(), []

        class Stuck(Promising):
            def admit(self, head: Head) -> Response:
                begun.append(head)
                go_on.wait(PATIENCE)
                return DONE

        async def talk() -> None:
            app = ASGI(Stuck(blocking=True))
            for client in await asyncio.gather(*(ask(app) for _ in range(5))):
                assert client.status == 503
                assert client.sent[1]["body"].startswith(b"This takes too long")
            assert await asyncio.to_thread(lambda: "done") == "done"
            go_on.set()
            assert (await ask(app)).status == 200
            assert len(begun) == 3  # and nothing that nobody waits for

        asyncio.run(talk())
        ids = [head.request_id for head in begun]
        assert vars(caplog.records[0])["request_id"] in ids

    def test_beside_one_that_does_not(self, receiver: Receiver) -> None:
        """While a handler blocks, another one of the same server answers, over real sockets."""
        go_on = Event()
        lock = Lock()

        class Slow(Promising):
            def admit(self, head: Head) -> Response | None:
                del head
                with lock:
                    go_on.wait(PATIENCE)
                return DONE

        slow, quick = ASGI(Slow(blocking=True)), ASGI(receiver)

        async def app(
            scope: Scope,
            receive: Callable[[], Awaitable[Message]],
            send: Callable[[Message], Awaitable[None]],
        ) -> None:
            await (slow if scope["path"] == "/slow" else quick)(scope, receive, send)

        with uvicorn_serving(app, lifespan="off") as port, ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(get, port, "/slow")
            began = time.monotonic()
            while not lock.locked() and time.monotonic() - began < PATIENCE:
                time.sleep(0.01)
            assert get(port, ENDPOINT).status == 405
            assert not waiting.done()
            go_on.set()
            assert waiting.result(PATIENCE).body == b"done"


class TestOtherEvents:
    def test_websocket(self, receiver: Receiver) -> None:
        """A websocket is declined, which a server answers 403."""
        client = asyncio.run(ask(ASGI(receiver), about={"type": "websocket", "path": ENDPOINT}))
        assert client.sent == [{"type": "websocket.close"}]

    def test_lifespan(self, receiver: Receiver) -> None:
        """Startup and shutdown are each confirmed, and then the call ends."""
        events = iter(["lifespan.startup", "lifespan.shutdown"])
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": next(events)}

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(ASGI(receiver)({"type": "lifespan"}, receive, send))
        assert sent == [
            {"type": "lifespan.startup.complete"},
            {"type": "lifespan.shutdown.complete"},
        ]

    def test_server_that_insists_on_lifespan(self, receiver: Receiver) -> None:
        """A server that does not start without lifespan starts, and stops."""
        with uvicorn_serving(ASGI(receiver), lifespan="on") as port:
            assert get(port, ENDPOINT).status == 405

    def test_unknown(self, receiver: Receiver) -> None:
        """An event of which no specification spoke yet is passed over."""
        assert asyncio.run(ask(ASGI(receiver), about={"type": "webtransport"})).sent == []


class TestCallable:
    def test_is_no_plain_function(self, receiver: Receiver) -> None:
        """It is an instance of a class: a host takes a plain function for a view."""
        assert not inspect.isroutine(ASGI(receiver))

    def test_is_annotated(self, receiver: Receiver) -> None:
        """Its call has types that can be read at run time, without which a host refuses it."""
        hints = get_type_hints(ASGI(receiver).__call__)
        assert list(hints) == ["scope", "receive", "send", "return"]


class _Grouping:
    """A handler whose answers come from another thread, in groups."""

    blocking = False

    def __init__(self, commit: GroupCommit[Request, Response]) -> None:
        self.commit = commit

    def admit(self, head: Head) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Promise[Response]:
        """Answer when the group is done."""
        return self.commit.submit(request)


def _delivery() -> bytes:
    return msgspec.json.encode(testing.delivery("ada@example.com", "m-1", at=AT))


def _end_all(handler: Handler) -> None:
    """End the futures in another thread while the loop, which calls this, stands still."""
    assert isinstance(handler, Promising)

    def end() -> None:
        for future in handler.futures:
            future.set_result(DONE)

    thread = Thread(target=end)
    thread.start()
    thread.join(PATIENCE)


async def _wake_ups(handler: Handler, end: Callable[[Handler], None]) -> int:
    """Make 100 requests that wait, end them, and count how often the loop was woken."""
    loop = asyncio.get_running_loop()
    count = 0
    call_soon_threadsafe = loop.call_soon_threadsafe

    def counting(callback: Callable[..., object], *arguments: object) -> asyncio.Handle:
        nonlocal count
        count += 1
        return call_soon_threadsafe(callback, *arguments)

    app = ASGI(handler)
    tasks = [asyncio.create_task(ask(app)) for _ in range(100)]
    await asyncio.sleep(0.05)
    loop.call_soon_threadsafe = counting  # type: ignore[assignment,method-assign]
    end(handler)
    async with asyncio.timeout(PATIENCE):
        clients = await asyncio.gather(*tasks)
    assert [client.status for client in clients] == [200] * 100
    return count


async def _until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - threads and handlers know no event of the loop's
            await asyncio.sleep(0.001)


def _forget(task: asyncio.Task[Client]) -> None:
    """Drop a task of a loop that is closed without the word that it was pending."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    task.get_coro().close()
