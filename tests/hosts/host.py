"""What every host does: each test here runs over a real socket, against a process of its own.

A subclass names an application of `examples` and a server. Nothing here knows ASGI or WSGI.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from process import Command, gunicorn, running
from sqlalchemy import make_url

import world
from command import Serving
from hookrow import testing
from hookrow.http import LARGEST_BODY
from wire import (
    ENDPOINT,
    PATIENCE,
    SECRET,
    TEXT,
    Answer,
    Connection,
    ask,
    chunk,
    eventually,
    get,
    head,
    request,
)

PREVIOUS = "the-secret-of-last-year"

HASTE = 0.3
"""In seconds; how long a body may take where that is tested."""

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
BEA, BEAS = "bea+news@example.org", "0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802"
ZOE, ZOES = "zoë.müller@example.net", "c47e2f18-9b06-4d5a-b3f2-18d05a7ce603"

AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)

DELIVERY = json.dumps(testing.delivery(ADA, ADAS, at=AT)).encode()
STRANGER = json.dumps(testing.delivery("eve@example.com", ADAS, at=AT)).encode()

CASES = {
    case["name"]: (
        b64decode(case["body_base64"]) if "body_base64" in case else case["body"].encode(),
        case["accept"],
    )
    for case in map(json.loads, (world.CASES / "notifications.jsonl").read_text().splitlines())
}


@dataclass(frozen=True, slots=True)
class Site:
    """A host that runs: the receiver is at `mount` of the server at `port`."""

    port: int
    mount: str
    database_url: str

    @property
    def path(self) -> str:
        """The endpoint's path as a client sees it."""
        return self.mount + ENDPOINT

    def post(self, body: bytes, *, secret: str | bytes | None = SECRET) -> Answer:
        """Post a body in one piece."""
        return ask(self.port, request(body, self.path, secret=secret))

    def rows(self) -> world.World:
        """Read all rows."""
        return world.rows(self.database_url)

    def delivered_at(self) -> datetime | None:
        """Return when the first dispatch was delivered, as its row says."""
        delivered: datetime | None = self.rows()["dispatches"][0]["delivered_at"]
        return delivered

    def lock(self) -> AbstractContextManager[sqlite3.Connection]:
        """Hold the database's write lock until closed, so that notifications wait."""
        connection = sqlite3.connect(make_url(self.database_url).database or "")
        connection.execute("BEGIN IMMEDIATE")
        return closing(connection)


class HostContract:
    """The contract; a subclass says which application it runs, and under which server.

    Where a host cannot keep a part of it, the subclass says so by name, and why.
    """

    command: Command
    """What it is served by; a subclass makes it a static method."""

    app: str
    """The example, as a server takes it: "module:name"."""

    variables: ClassVar[Mapping[str, str]] = {}
    """What the application needs in its environment besides hookrow's own settings."""

    mount = "/mail"
    """Where the receiver is mounted."""

    continues_first = False
    """The server says "100 Continue" by itself, before the application has seen the head."""

    drops_unread = False
    """The server closes a connection on which a large body was answered before it was read."""

    overshoot = 1
    """In bytes; how far a body of no declared length goes over 1 MiB before it is noticed."""

    reads_body_first = False
    """The host reads the whole body before the receiver sees the head."""

    takes_chunks = True
    """A body of no declared length reaches the receiver; else it is answered 411."""

    waits_for_body = False
    """The host waits for a slow body as long as it takes, for it has no limit of its own."""

    drops_the_gone = False
    """The host drops what has not reached the receiver yet when its client goes away."""

    stops_at_once = False
    """The server ends without an answer to what waits, which the provider posts again."""

    many = 64
    """How many connections come at once."""

    @pytest.fixture(scope="class")
    @classmethod
    def database_url(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        """Name a database for all tests of the class."""
        return f"sqlite:///{tmp_path_factory.mktemp('database')}/hookrow.db"

    @classmethod
    @contextmanager
    def running(cls, database_url: str, app: str) -> Iterator[Serving]:
        """Run an application on the database until the block ends."""
        file = Path(make_url(database_url).database or "")
        variables = {
            "HOOKROW_DATABASE_URL": database_url,
            "HOOKROW_SECRET": SECRET,
            "HOOKROW_PREVIOUS_SECRET": PREVIOUS,
            **cls.variables,
        }
        with running(cls.command, app, file.parent, variables) as serving:
            yield serving

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, database_url: str) -> Iterator[Serving]:
        """Serve for all tests of the class, for a server takes its time to start."""
        with cls.running(database_url, cls.app) as serving:
            yield serving

    @pytest.fixture(scope="class")
    @classmethod
    def hasty_server(cls, database_url: str) -> Iterator[Serving]:
        """Serve with less patience for bodies, for the tests of slow ones."""
        module, _, name = cls.app.partition(":")
        folder = Path(make_url(database_url).database or "").parent
        (folder / "hasty.py").write_text(
            f"import hookrow.http\nhookrow.http.SLOWEST_BODY = {HASTE}\n"
            f"from {module} import {name} as app\n"
        )
        with cls.running(database_url, "hasty:app") as serving:
            yield serving

    @pytest.fixture
    def site(self, server: Serving, database_url: str) -> Iterator[Site]:
        """Begin with a fresh world; nothing may be logged as wrong."""
        with self._site(server, database_url) as site:
            yield site

    @pytest.fixture
    def hasty_site(self, hasty_server: Serving, database_url: str) -> Iterator[Site]:
        """Begin as `site` does, where a body may take HASTE seconds."""
        with self._site(hasty_server, database_url) as site:
            yield site

    @contextmanager
    def _site(self, server: Serving, database_url: str) -> Iterator[Site]:
        world.fill(database_url)
        before = len(server.log)
        yield Site(server.port, self.mount, database_url)
        logged = server.log[before:]
        assert not any(word in logged for word in ("Traceback", "ERROR", "CRITICAL")), logged

    # -- what is answered, to the byte ------------------------------------------------

    @pytest.mark.parametrize(
        ("payload", "status", "body"),
        [
            pytest.param(testing.delivery(ADA, ADAS, at=AT), 200, "", id="delivery"),
            pytest.param(testing.opening(BEA, BEAS, at=AT), 200, "", id="open"),
            pytest.param(testing.suppression(ADA, ADAS, at=AT), 200, "", id="suppression"),
            pytest.param(testing.reactivation(ADA, None, at=AT), 200, "", id="reactivation"),
            pytest.param(
                testing.delivery(ADA, ZOES, at=AT),
                400,
                f"Dispatch subscriber {ZOE} does not match payload recipient {ADA}",
                id="another's dispatch",
            ),
            pytest.param(
                testing.opening(ZOE, ADAS, at=AT),
                400,
                f"Dispatch subscriber {ADA} does not match payload recipient {ZOE}",
                id="a recipient beyond ASCII",
            ),
            pytest.param(
                testing.delivery("eve@example.com", ADAS, at=AT),
                404,
                "Engine::Subscriber not found",
                id="a stranger",
            ),
            pytest.param(
                testing.suppression("eve@example.com", ADAS, at=AT),
                404,
                "Engine::Subscriber not found",
                id="a stranger's suppression",
            ),
            pytest.param(
                testing.opening(ADA, "m-unknown", at=AT),
                404,
                "Engine::Dispatch not found",
                id="an unknown dispatch",
            ),
            pytest.param(
                {"RecordType": "Click", "Recipient": ADA},
                422,
                "Webhook payload not supported",
                id="another kind",
            ),
            pytest.param(
                testing.delivery(ADA, ADAS, at=AT) | {"DeliveredAt": "yesterday"},
                422,
                "Webhook payload not supported",
                id="no time",
            ),
            pytest.param([], 422, "Webhook payload not supported", id="no object"),
        ],
    )
    def test_status_and_body(self, site: Site, payload: object, status: int, body: str) -> None:
        """Each end of a notification has its status and body, as plain text in UTF-8."""
        answer = site.post(json.dumps(payload).encode())
        assert (answer.status, answer.body) == (status, body.encode())
        assert answer.header("content-type") == TEXT
        assert answer.header("content-length") == str(len(body.encode()))

    def test_recorded(self, site: Site) -> None:
        """When 200 comes the row is there for everybody, with the time that was posted."""
        assert site.delivered_at() is None
        assert site.post(DELIVERY).status == 200
        assert site.delivered_at() == AT

    def test_cases(self, site: Site) -> None:
        """Each sample of what a provider may post has one of its allowed answers."""
        answers = {name: site.post(body) for name, (body, _) in CASES.items()}
        wrong = {name: each for name, each in answers.items() if each.status not in CASES[name][1]}
        assert wrong == {}

    def test_cases_without_the_secret(self, site: Site) -> None:
        """Without the secret each of them is answered 401, and nothing changes."""
        before = site.rows()
        assert {site.post(body, secret=None).status for body, _ in CASES.values()} == {401}
        assert site.rows() == before

    # -- where, and how ---------------------------------------------------------------

    @pytest.mark.parametrize("end", ["", "/", "?", "?a=b", "/?a=b"])
    def test_path(self, site: Site, end: str) -> None:
        """A slash at the end is the same endpoint without a redirect; a query does not matter."""
        answer = ask(site.port, request(DELIVERY, site.path + end))
        assert (answer.status, answer.header("location")) == (200, None)

    @pytest.mark.parametrize("method", ["POST", "GET"])
    @pytest.mark.parametrize("secret", [SECRET, "wrong", None])
    @pytest.mark.parametrize("path", ["/", "/provider", "/provider/webhooks/x", "/x" + ENDPOINT])
    def test_elsewhere(self, site: Site, path: str, secret: str | None, method: str) -> None:
        """Another path is answered 404, whatever the method and the secret."""
        url = site.mount + path
        answer = ask(site.port, request(DELIVERY, url, method=method, secret=secret))
        assert (answer.status, answer.header("location")) == (404, None)
        assert site.delivered_at() is None

    @pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
    @pytest.mark.parametrize("secret", [SECRET, None])
    def test_method(self, site: Site, method: str, secret: str | None) -> None:
        """Another method is answered 405, with the one that is allowed, whatever the secret."""
        answer = ask(site.port, request(DELIVERY, site.path, method=method, secret=secret))
        assert (answer.status, answer.body) == (405, b"Method Not Allowed")
        assert (answer.header("allow"), answer.header("content-type")) == ("POST", TEXT)
        assert site.delivered_at() is None

    def test_head(self, site: Site) -> None:
        """HEAD is answered as GET is, but for the body."""
        with Connection(site.port) as connection:
            connection.send(head(site.path, method="HEAD"))
            answer = connection.answer(of_head=True)
            assert (answer.status, answer.header("allow")) == (405, "POST")
            connection.send(request(DELIVERY, site.path))
            assert connection.answer().status == 200

    @pytest.mark.parametrize(
        "header",
        [b"Content-Type: application/json", b"Content-Type: text/plain", b"Content-Type: \xff"],
    )
    def test_content_type(self, site: Site, header: bytes) -> None:
        """What the body says it is does not matter."""
        assert ask(site.port, request(DELIVERY, site.path, extra=[header])).status == 200

    def test_connection_is_kept(self, site: Site) -> None:
        """One connection carries many notifications, refused ones and accepted ones."""
        with Connection(site.port) as connection:
            for secret, body, status in [
                (SECRET, DELIVERY, 200),
                ("wrong", DELIVERY, 401),
                (SECRET, b"{", 422),
                (SECRET, STRANGER, 404),
                (SECRET, DELIVERY, 200),
            ]:
                connection.send(request(body, site.path, secret=secret))
                assert connection.answer().status == status

    def test_requests_in_one_go(self, site: Site) -> None:
        """Requests that follow each other without waiting are answered in their order."""
        with Connection(site.port) as connection:
            requests = (request(body, site.path) for body in (DELIVERY, b"{", STRANGER, DELIVERY))
            connection.send(b"".join(requests))
            assert [connection.answer().status for _ in range(4)] == [200, 422, 404, 200]

    # -- the secret -------------------------------------------------------------------

    @pytest.mark.parametrize("secret", [SECRET, PREVIOUS])
    def test_rotation(self, site: Site, secret: str) -> None:
        """While a secret is rotated both are accepted."""
        assert site.post(DELIVERY, secret=secret).status == 200

    @pytest.mark.parametrize(
        "secret",
        [
            pytest.param(None, id="none"),
            pytest.param(b"", id="empty"),
            pytest.param(SECRET[:-1], id="too short"),
            pytest.param(SECRET + "x", id="too long"),
            pytest.param(SECRET.upper(), id="another case"),
            pytest.param(f"{SECRET}, {PREVIOUS}", id="both"),
            pytest.param("größe", id="beyond ASCII"),
            pytest.param(b"\xff\xfe", id="no UTF-8"),
        ],
    )
    def test_wrong_secret(self, site: Site, secret: str | bytes | None) -> None:
        """Whatever is not one of the secrets is answered 401, and changes nothing.

        A header tells whether one came (RFC 9110, section 11.6.1).
        """
        answer = site.post(DELIVERY, secret=secret)
        assert (answer.status, answer.body) == (401, b"Cannot verify webhook")
        error = "wrong" if secret else "missing"
        assert answer.header("www-authenticate") == f'Secret error="{error}"'
        assert site.delivered_at() is None

    @pytest.mark.parametrize("other", [SECRET, PREVIOUS, "wrong", ""])
    @pytest.mark.parametrize("first", [True, False])
    def test_secret_twice(self, site: Site, other: str, *, first: bool) -> None:
        """A secret that comes twice is answered 401, right or not."""
        one, two = (SECRET, other) if first else (other, SECRET)
        again = f"X-Provider-Secret: {two}".encode()
        answer = ask(site.port, request(DELIVERY, site.path, secret=one, extra=[again]))
        assert answer.status == 401

    @pytest.mark.parametrize("name", [b"x-provider-secret", b"X-PROVIDER-SECRET"])
    def test_name_of_the_header(self, site: Site, name: bytes) -> None:
        """The header's name may be written in any case, and space around its value is none of it.

        RFC 9110, sections 5.1 and 5.5.
        """
        header = name + b": \t " + SECRET.encode() + b" \t"
        posted = request(DELIVERY, site.path, secret=None, extra=[header])
        assert ask(site.port, posted).status == 200

    # -- the order of the checks, and how little is read --------------------------------

    @pytest.mark.parametrize(
        ("path", "method", "secret", "status"),
        [
            (ENDPOINT, "POST", "wrong", 401),
            (ENDPOINT, "POST", None, 401),
            (ENDPOINT, "PUT", SECRET, 405),
            ("/nowhere", "POST", SECRET, 404),
        ],
    )
    @pytest.mark.parametrize("expect", [(), (b"Expect: 100-continue",)])
    def test_before_the_body(
        self,
        site: Site,
        path: str,
        method: str,
        secret: str | None,
        status: int,
        expect: tuple[bytes, ...],
    ) -> None:
        """Path, method and secret are judged by the head alone: the body is not waited for."""
        with Connection(site.port) as connection:
            started = head(
                site.mount + path, method=method, secret=secret, length=1000, extra=expect
            )
            connection.send(started)
            if expect and self.continues_first:
                connection.interim(100)
            if self.reads_body_first:
                connection.send(b"x" * 1000)
            assert connection.answer().status == status

    def test_before_an_unfinished_body(self, site: Site) -> None:
        """A wrong secret is answered though the body has begun and does not end."""
        with Connection(site.port) as connection:
            connection.send(head(site.path, secret="wrong", length=1000) + b"{")
            if self.reads_body_first:
                connection.send(b"x" * 999)
            assert connection.answer().status == 401

    def test_continue(self, site: Site) -> None:
        """Who asks first whether to send the body is told to, once the secret was right."""
        with Connection(site.port) as connection:
            expect = [b"Expect: 100-continue"]
            connection.send(head(site.path, length=len(DELIVERY), extra=expect))
            connection.interim(100)
            connection.send(DELIVERY)
            assert connection.answer().status == 200
        assert site.delivered_at() == AT

    @pytest.mark.parametrize(
        ("path", "method", "secret", "status"),
        [
            ("/nowhere", "GET", "wrong", 404),
            (ENDPOINT, "GET", "wrong", 405),
            (ENDPOINT, "POST", "wrong", 401),
            (ENDPOINT, "POST", SECRET, 413),
        ],
    )
    def test_order(self, site: Site, path: str, method: str, secret: str, status: int) -> None:
        """Of all that is wrong the first counts: path, method, secret, size."""
        body = b"x" * (LARGEST_BODY + 1)
        answer = ask(site.port, request(body, site.mount + path, method=method, secret=secret))
        assert answer.status == status

    # -- the request's id -------------------------------------------------------------

    @pytest.mark.parametrize(
        ("given", "secret", "size", "status"),
        [
            ("r-1", SECRET, 2, 422),
            ("r-1", "wrong", 2, 401),
            ("r-1", SECRET, LARGEST_BODY + 1, 413),
            ("ada@example.com", SECRET, 2, 422),
        ],
    )
    def test_request_id(self, site: Site, given: str, secret: str, size: int, status: int) -> None:
        """The answer has the id that its request came with, where it is harmless, or a new one."""
        extra = [b"X-Request-Id: " + given.encode()]
        answer = ask(site.port, request(b"x" * size, site.path, secret=secret, extra=extra))
        assert answer.status == status
        id_ = answer.header("x-request-id") or ""
        assert id_ == given if given == "r-1" else re.fullmatch("[0-9a-f]{16}", id_)

    # -- size and time ----------------------------------------------------------------

    def test_declared_too_large(self, site: Site) -> None:
        """A body of which the head says that it is over 1 MiB is refused by the head alone."""
        with Connection(site.port) as connection:
            connection.send(head(site.path, length=LARGEST_BODY + 1))
            if self.reads_body_first:
                connection.send(b"x" * (LARGEST_BODY + 1))
            answer = connection.answer()
        assert (answer.status, answer.body) == (413, b"Webhook payload too large")
        assert answer.header("content-type") == TEXT

    def test_streamed_too_large(self, site: Site) -> None:
        """A body of no declared length is refused as soon as it is over 1 MiB."""
        with Connection(site.port) as connection:
            connection.send(head(site.path, extra=[b"Transfer-Encoding: chunked"]))
            with suppress(ConnectionError):  # it may have answered, and closed
                for _ in range(16):
                    connection.send(chunk(b" " * (LARGEST_BODY // 16)))
                connection.send(chunk(b" " * self.overshoot))
                if self.reads_body_first:
                    connection.send(chunk(b""))
            assert connection.answer().status == (413 if self.takes_chunks else 411)

    @pytest.mark.parametrize("pieces", [1, 16])
    def test_largest(self, site: Site, pieces: int) -> None:
        """A body of 1 MiB to the byte is taken, in one piece or in many."""
        body = DELIVERY.ljust(LARGEST_BODY)
        size = len(body) // pieces
        taken = pieces == 1 or self.takes_chunks
        with Connection(site.port) as connection:
            if pieces == 1:
                connection.send(request(body, site.path))
            else:
                connection.send(head(site.path, extra=[b"Transfer-Encoding: chunked"]))
                with nullcontext() if taken else suppress(ConnectionError):
                    for at in range(0, len(body), size):
                        connection.send(chunk(body[at : at + size]))
                    connection.send(chunk(b""))
            assert connection.answer().status == (200 if taken else 411)
        assert site.delivered_at() == (AT if taken else None)

    def test_after_too_large(self, site: Site) -> None:
        """A server that refused a large body goes on, with others and the same client."""
        with Connection(site.port) as connection:
            with suppress(ConnectionError):
                connection.send(request(b"x" * (2 * LARGEST_BODY), site.path))
            assert connection.answer().status == 413
            if self.drops_unread:
                assert connection.is_over()
            else:
                connection.send(request(DELIVERY, site.path))
                assert connection.answer().status == 200
        assert site.post(DELIVERY).status == 200

    @pytest.mark.parametrize("begin", [b"", DELIVERY[:50]])
    def test_slow_body(self, hasty_site: Site, begin: bytes) -> None:
        """A body that is not complete in time is answered 408, and changes nothing."""
        site = hasty_site
        with Connection(site.port) as connection:
            connection.send(head(site.path, length=len(DELIVERY)) + begin)
            if self.waits_for_body:
                time.sleep(2 * HASTE)
                connection.send(DELIVERY[len(begin) :])
                assert connection.answer().status == 200
                return
            answer = connection.answer()
        assert (answer.status, answer.body) == (408, b"Request Timeout")
        assert answer.header("content-type") == TEXT
        assert site.delivered_at() is None

    def test_trickling_body(self, hasty_site: Site) -> None:
        """The time is for the whole body: who sends a byte now and then gains none."""
        with Connection(hasty_site.port) as connection:
            connection.send(head(hasty_site.path, length=len(DELIVERY)))
            began = time.monotonic()
            with suppress(ConnectionError):  # it may have answered, and closed, before the end
                for letter in DELIVERY[:5]:
                    connection.send(bytes([letter]))
                    time.sleep(0.1)
            if self.waits_for_body:
                connection.send(DELIVERY[5:])
            assert connection.answer().status == (200 if self.waits_for_body else 408)
            assert time.monotonic() - began < PATIENCE

    # -- clients that go away ---------------------------------------------------------

    @pytest.mark.parametrize("go", [Connection.close, Connection.reset])
    def test_gone_after_the_body(self, site: Site, go: Callable[[Connection], None]) -> None:
        """What was sent whole is recorded, though nobody waits for the answer."""

        def post_and_go() -> None:
            with site.lock():
                connection = Connection(site.port)
                connection.send(request(DELIVERY, site.path))
                # The answer to this one says that the server has read the other.
                assert ask(site.port, request(b"{", site.path + "/x")).status == 404
                go(connection)
                assert ask(site.port, request(b"{", site.path + "/x")).status == 404

        post_and_go()
        if self.drops_the_gone:  # on a busy machine it may be on its way still
            with suppress(AssertionError):
                eventually(lambda: site.delivered_at() == AT)
                return
            post_and_go()
        eventually(lambda: site.delivered_at() == AT)

    @pytest.mark.parametrize("go", [Connection.close, Connection.reset])
    @pytest.mark.parametrize("begin", [b"", DELIVERY[:-1]])
    def test_gone_within_the_body(
        self, site: Site, begin: bytes, go: Callable[[Connection], None]
    ) -> None:
        """What was not sent whole changes nothing, and the server goes on."""
        connection = Connection(site.port)
        connection.send(head(site.path, length=len(DELIVERY)) + begin)
        assert site.post(b"{").status == 422
        go(connection)
        assert site.post(STRANGER).status == 404
        assert site.delivered_at() is None

    def test_gone_in_droves(self, site: Site) -> None:
        """Clients that post and leave at once, by the dozen, do not disturb the next."""
        for number in range(self.many):
            connection = Connection(site.port)
            connection.send(request(DELIVERY, site.path))
            (Connection.reset if number % 2 else Connection.close)(connection)
        assert site.post(DELIVERY).status == 200

    # -- many at once -----------------------------------------------------------------

    def test_many_connections(self, site: Site) -> None:
        """So many connections are served at once: all have asked before any is answered."""
        with ExitStack() as stack:
            connections = [stack.enter_context(Connection(site.port)) for _ in range(self.many)]
            with site.lock():
                for connection in connections:
                    connection.send(request(DELIVERY, site.path))
            answers = [connection.answer() for connection in connections]
        assert [answer.status for answer in answers] == [200] * self.many

    def test_waiting_holds_up_nobody(self, site: Site) -> None:
        """While notifications wait for the database, what need not wait is answered."""
        with Connection(site.port) as waiting:
            with site.lock():
                waiting.send(request(DELIVERY, site.path))
                assert ask(site.port, request(b"{", site.path + "/x")).status == 404
                assert site.post(DELIVERY, secret="wrong").status == 401
            assert waiting.answer().status == 200

    # -- the application around it -----------------------------------------------------

    def test_own_routes(self, site: Site) -> None:
        """What the host saves when it sends is found, and what became of it can be shown."""
        self.send(site, "grace@example.com", "m-9")
        payload = testing.delivery("grace@example.com", "m-9", at=AT)
        assert "None" in self.show(site, "m-9") or "null" in self.show(site, "m-9")
        assert site.post(json.dumps(payload).encode()).status == 200
        assert "2026-03-04" in self.show(site, "m-9")

    def send(self, site: Site, email: str, message_id: str) -> None:
        """Have the host save a subscriber and a dispatch."""
        path = f"/dispatches?email={email}&message_id={message_id}"
        assert ask(site.port, request(b"", path, secret=None)).status == 201

    def show(self, site: Site, message_id: str) -> str:
        """Have the host show a dispatch."""
        return get(site.port, f"/dispatches/{message_id}").body.decode()

    def test_stop(self, site: Site, hasty_server: Serving) -> None:
        """On SIGTERM what waits is recorded and answered, and the server ends.

        The last test, for the server that it stops is that of others.
        """
        stopping = hasty_server
        with Connection(stopping.port) as waiting:
            with site.lock():
                waiting.send(request(DELIVERY, site.path))
                assert ask(stopping.port, request(b"{", site.path + "/x")).status == 404
                stopping.send(signal.SIGTERM)
                time.sleep(0.3)  # by then it knows; if it does not, the same has to hold
            if self.stops_at_once:
                assert waiting.is_over()
                assert site.post(DELIVERY).status == 200
            else:
                assert waiting.answer().status == 200
        # uvicorn sends itself the signal once more when it is done.
        assert stopping.ended() in {0, -signal.SIGTERM}
        assert site.delivered_at() == AT
        assert "Traceback" not in stopping.log


class GunicornContract(HostContract):
    """The contract under gunicorn, with threads."""

    command = staticmethod(gunicorn)
    continues_first = True
    drops_unread = True  # after 64 KiB that it reads for nothing
    overshoot = 1024  # it reads no less at a time
