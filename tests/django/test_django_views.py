"""The endpoint in a Django project keeps the contract, regardless of the project's settings."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from threading import active_count
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.db.transaction import atomic
from django.http import HttpRequest, UnreadablePostError
from django.test import AsyncClient, Client, override_settings
from django.urls import include, reverse
from django.urls import path as url
from prometheus_client import CollectorRegistry

import django_host
import world
from courier import Courier, event, signed
from django_project.site import post
from hookrow import Arrival, Postmark, Receiver, testing
from hookrow._http import MAX_BODY, PROBE_AGENT
from hookrow.django import receiver, store
from hookrow.django._receiver import BatchReceiver, SyncReceiver
from hookrow.django._views import webhooks
from hookrow.django.signals import notification_recorded, notification_refused
from hookrow.metrics import Metrics
from hookrow.stores._log import Query, RequestKind
from times import DAY
from wire import ADA, ADAS, AT, DELIVERY, ENDPOINT, PATIENCE, SECRET, STRANGER, TEXT, eventually

PATH = f"/mail{ENDPOINT}"


@pytest.fixture
def alias(sqlite_url: str) -> Iterator[str]:
    """Configure the project to record in a database with the rows of the cases."""
    world.fill(sqlite_url)
    with django_host.project(sqlite_url, PREVIOUS_SECRET="the-secret-of-last-year") as alias:
        yield alias


def delivered(url: str) -> object:
    """Return the delivery time of Ada's dispatch."""
    return world.rows(url)["dispatches"][0]["delivered_at"]


@pytest.mark.usefixtures("alias")
class TestResponses:
    @pytest.mark.parametrize(("mount", "path"), [("mail/", PATH), ("mail", f"{PATH}/")])
    def test_slashes(self, sqlite_url: str, path: str, mount: str) -> None:
        assert reverse("hookrow:webhooks") == PATH
        with override_settings(ROOT_URLCONF=(url(mount, include("hookrow.django.urls")),)):
            response = post(DELIVERY, path=path)
        assert (response.status_code, response.content) == (200, b"")
        assert (response["Content-Type"], response["Content-Length"]) == (TEXT, "0")
        assert delivered(sqlite_url) == AT

    @override_settings(ALLOWED_HOSTS=["testserver"])
    def test_applications(self, sqlite_url: str) -> None:
        """Django's own test clients, for WSGI and ASGI, post payloads with `testing.headers`."""
        payload, headers = testing.delivery(ADA, ADAS, at=AT), testing.headers(secret=SECRET)
        for send in (Client().post, async_to_sync(AsyncClient().post)):
            world.fill(sqlite_url)
            response = send(PATH, payload, content_type="application/json", headers=headers)
            assert (response.status_code, response.content) == (200, b"")
            assert delivered(sqlite_url) == AT

    def test_settings_of_the_project(self, sqlite_url: str) -> None:
        """`DATA_UPLOAD_MAX_MEMORY_SIZE` and `LoginRequiredMiddleware` do not apply."""
        login = "django.contrib.auth.middleware.LoginRequiredMiddleware"
        middleware = [*settings.MIDDLEWARE, login]
        with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10, MIDDLEWARE=middleware):
            assert post(DELIVERY).status_code == 200
            assert post(b" " * MAX_BODY).status_code == 422
            response = post(b" " * (MAX_BODY + 1))
        assert (response.status_code, response.content) == (413, b"Webhook payload too large")
        assert delivered(sqlite_url) == AT

    def test_secrets(self) -> None:
        """The previous secret is accepted. Overriding the settings replaces the receiver."""
        first = receiver()
        assert receiver() is first
        for previous, status in (("the-secret-of-last-year", 200), ("", 401)):
            assert post(DELIVERY, previous).status_code == status
        for secret, status in (("another-secret", 401), (None, 503)):
            with override_settings(HOOKROW={**settings.HOOKROW, "SECRET": secret}):
                assert post(DELIVERY).status_code == status
        assert receiver() is not first
        assert post(DELIVERY).status_code == 200

    def test_metrics(self) -> None:
        """The observer is notified of all responses, which have the id of their request."""
        assert post(STRANGER).status_code == 404
        registry = CollectorRegistry()
        with override_settings(HOOKROW={**settings.HOOKROW, "OBSERVER": Metrics(registry)}):
            response = post(DELIVERY, headers={"X-Request-Id": "r-1"})
            assert (response.status_code, response["X-Request-Id"]) == (200, "r-1")
            assert post(b"x" * (MAX_BODY + 1)).status_code == 413
            eventually(lambda: registry.get_sample_value("hookrow_parked") == 1)
        ended = {"type": "delivered", "outcome": "recorded"}
        assert registry.get_sample_value("hookrow_notifications_total", ended) == 1
        refused = {"refusal": "too_large", "entry": ""}
        assert registry.get_sample_value("hookrow_requests_refused_total", refused) == 1


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
@pytest.mark.parametrize("several", [False, True], indirect=True, ids=["directly", "in groups"])
class TestEntries:
    """A receiver with several entries, without and with group commit."""

    @pytest.fixture
    def several(
        self, request: pytest.FixtureRequest, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Receiver]:
        world.fill(sqlite_url)
        entries = {"mail": Postmark(SECRET), "parcels": Courier(limit=2 * MAX_BODY)}
        kind = BatchReceiver if request.param else SyncReceiver
        with django_host.project(sqlite_url, GROUP_COMMIT=request.param):
            made = kind(entries, store(), deadline=PATIENCE)
            monkeypatch.setattr("hookrow.django._views.receiver", lambda: made)
            yield made
            made.close(PATIENCE)
        gc.collect()  # the connection of the thread, which would warn in another test

    @pytest.mark.parametrize("mount", ["mail/", "mail"])
    @pytest.mark.parametrize("end", ["", "/"])
    @pytest.mark.usefixtures("several")
    def test_paths(self, mount: str, end: str) -> None:
        """Each entry has a URL, and another name gets a 404."""
        assert reverse("hookrow:webhooks", args=["parcels"]) == f"{PATH}/parcels"
        parcel = signed(event("1", to=ADA, message=ADAS))
        with override_settings(ROOT_URLCONF=(url(mount, include("hookrow.django.urls")),)):
            statuses = {
                name: post(body, path=f"{PATH}{name}{end}").status_code
                for name, body in (("", DELIVERY), ("/mail", DELIVERY), ("/parcels", parcel))
            }
            unknown = post(DELIVERY, path=f"{PATH}/other{end}")
        assert statuses == dict.fromkeys(statuses, 200)
        assert (unknown.status_code, unknown.content) == (404, b"Not Found")

    @pytest.mark.usefixtures("several")
    def test_probes(self) -> None:
        """The response to HEAD has no body; Postmark's entry accepts POST only."""
        got, of_head = Client().get(f"{PATH}/parcels"), Client().head(f"{PATH}/parcels")
        assert (got.status_code, got.content) == (200, b"Welcome")
        assert (of_head.status_code, of_head.content) == (200, b"")
        assert of_head["Content-Length"] == "7"
        assert Client().put(f"{PATH}/parcels")["Allow"] == "GET, HEAD, POST"
        assert (Client().get(PATH).status_code, Client().get(PATH)["Allow"]) == (405, "POST")

    @pytest.mark.usefixtures("several")
    def test_limits(self) -> None:
        parcel = signed(event("1", to=ADA, message=ADAS))
        for name, size, status in (
            *(("/parcels", 2 * MAX_BODY, 200), ("/parcels", 2 * MAX_BODY + 1, 413)),
            ("", MAX_BODY + 1, 413),
        ):
            assert post(parcel.rjust(size), path=PATH + name).status_code == status

    def test_wrong_secrets(self, several: Receiver) -> None:
        """They are counted by entry."""
        for name in ("", "/mail", "/parcels"):
            assert post(b"[]", "wrong", path=PATH + name).status_code == 401
        several.close(PATIENCE)
        assert several.store.log is not None
        found = several.store.log.requests(RequestKind.WRONG_SECRET, datetime.now(UTC) - DAY)
        assert {name: each.number for name, each in found.items()} == {"mail": 2, "parcels": 1}

    def test_a_request_with_many_events(self, several: Receiver) -> None:
        """Each of them is recorded, in groups."""
        events = (event(str(number), to=ADA, message=ADAS) for number in range(1000))
        assert post(signed(*events), path=f"{PATH}/parcels").status_code == 200
        assert several.store.log is not None
        found = several.store.log.newest(Query(), limit=2000)
        assert [each.outcome.value for each in found] == ["recorded"] * 1000


class _Untouched(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise AssertionError(size)


CHUNKED: dict[str, Any] = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
DECLARED = {"CONTENT_LENGTH": "99"}


@pytest.mark.usefixtures("alias")
@pytest.mark.parametrize(
    ("secret", "stream", "environ", "status"),
    [
        # Without the secret, no byte of the body is read.
        *((wrong, _Untouched(), DECLARED, 401) for wrong in ("", f"{SECRET},{SECRET}", "\u20ac")),
        (SECRET, BytesIO(DELIVERY), CHUNKED, 200),
        (SECRET, BytesIO(b" " * 2 * MAX_BODY), CHUNKED, 413),
        (SECRET, _Untouched(), {**CHUNKED, "wsgi.input_terminated": False}, 411),
    ],
)
def test_environment_of_a_wsgi_server(
    sqlite_url: str, secret: str, stream: BytesIO, environ: dict[str, Any], status: int
) -> None:
    """A body is read as `hookrow.wsgi` reads it; if it is refused, nothing changes."""
    variables = {"REQUEST_METHOD": "POST", "PATH_INFO": PATH, "wsgi.input": stream, **environ}
    request = WSGIRequest({**variables, "HTTP_X_PROVIDER_SECRET": secret})
    assert webhooks(request).status_code == status
    assert delivered(sqlite_url) == (AT if status == 200 else None)


class _Unreadable(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(size)


READERS: dict[str, Callable[[HttpRequest], object]] = {
    "body": lambda request: request.body,
    "body, read": lambda request: (request.body, request.read()),
    "body, POST": lambda request: (request.body, request.POST),
    "POST": lambda request: request.POST,  # of the type multipart/form-data
    "read": lambda request: request.read(),
    "read a byte": lambda request: request.read(1),
    "readline": lambda request: request.readline(),
}

LOST = ("POST", "read", "read a byte", "readline")
"""The readers after which Django does not have the body any more."""


def multipart(kind: str, stream: BytesIO, length: int | None) -> HttpRequest:
    """Return a request of the type multipart/form-data, chunked if there is no length."""
    if kind == "asgi":
        framing = (
            (b"transfer-encoding", b"chunked")
            if length is None
            else (b"content-length", b"%d" % length)
        )
        headers = [
            (b"content-type", b"multipart/form-data; boundary=x"),
            (b"x-provider-secret", SECRET.encode()),
            framing,
        ]
        return ASGIRequest(
            {"type": "http", "method": "POST", "path": PATH, "headers": headers}, stream
        )
    framed = CHUNKED if length is None else {"CONTENT_LENGTH": str(length)}
    return WSGIRequest(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": PATH,
            "CONTENT_TYPE": "multipart/form-data; boundary=x",
            "HTTP_X_PROVIDER_SECRET": SECRET,
            "wsgi.input": stream,
            **framed,
        }
    )


@pytest.mark.usefixtures("alias")
class TestMiddlewareThatReadsTheBody:
    """A notification that is lost gets a 408, after which the provider repeats it."""

    @pytest.mark.parametrize(
        ("kind", "length"), [("wsgi", len(DELIVERY)), ("asgi", len(DELIVERY)), ("asgi", None)]
    )
    @pytest.mark.parametrize("reader", READERS)
    def test_reader(self, sqlite_url: str, kind: str, length: int | None, reader: str) -> None:
        """Django keeps the body for the view if it was read through `request.body`."""
        request = multipart(kind, BytesIO(DELIVERY), length)
        READERS[reader](request)
        is_parsed = reader != "POST" or length is not None  # Django parses no chunked form
        is_lost = reader in LOST and is_parsed
        assert webhooks(request).status_code == (408 if is_lost else 200)
        assert delivered(sqlite_url) == (None if is_lost else AT)

    @pytest.mark.parametrize("reader", READERS)
    def test_chunked_on_wsgi(self, sqlite_url: str, reader: str) -> None:
        """Django gives the middleware nothing of a chunked body, so the view can still read it."""
        request = multipart("wsgi", BytesIO(DELIVERY), None)
        READERS[reader](request)
        assert webhooks(request).status_code == 200
        assert delivered(sqlite_url) == AT

    @pytest.mark.parametrize("kind", ["wsgi", "asgi"])
    @pytest.mark.parametrize("length", [len(DELIVERY), None])
    def test_before_django(self, kind: str, length: int | None) -> None:
        """A middleware of the server may have read the body before Django is called."""
        assert webhooks(multipart(kind, BytesIO(), length)).status_code == 408

    @pytest.mark.parametrize("kind", ["wsgi", "asgi"])
    def test_declared_as_empty(self, kind: str) -> None:
        """Nothing was lost, so the request is not a notification."""
        request = multipart(kind, BytesIO(), 0)
        request.read()
        assert webhooks(request).status_code == 422

    @pytest.mark.parametrize("kind", ["wsgi", "asgi"])
    @pytest.mark.parametrize("reads", [True, False])
    def test_stream_that_fails(self, kind: str, *, reads: bool) -> None:
        """The middleware may have ignored the error."""
        request = multipart(kind, _Unreadable(), len(DELIVERY))
        if reads:
            with pytest.raises(UnreadablePostError):
                request.read()
        assert webhooks(request).status_code == 408


@contextmanager
def listening() -> Iterator[list[tuple[object, bytes, bool]]]:
    """Yield the signals sent in a block, the bodies, and whether in a transaction; raise errors."""
    sent: list[tuple[object, bytes, bool]] = []

    def listen(signal: object, arrival: Arrival, **_: object) -> None:
        sent.append((signal, arrival.body, connections["default"].in_atomic_block))
        raise ValueError(ADA)

    def fail(**_: object) -> None:
        raise KeyError(ADA)

    listeners: list[Callable[..., None]] = [
        partial(fail),
        listen,
    ]  # the first one has no name, which Django would log
    for signal in (notification_recorded, notification_refused):
        for listener in listeners:
            signal.connect(listener)
    yield sent
    for signal in (notification_recorded, notification_refused):
        for listener in listeners:
            signal.disconnect(listener)


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
class TestSignals:
    @pytest.mark.parametrize("group_commit", [False, True])
    def test_outcomes(
        self, sqlite_url: str, caplog: pytest.LogCaptureFixture, *, group_commit: bool
    ) -> None:
        """Each outcome is sent once, after the commit; errors in listeners are only logged.

        The log lines name the type, the file and the line of each error, and have a traceback, but
        not the error's text.
        Requests of `hookrow check URL` are not sent.
        """
        world.fill(sqlite_url)
        with django_host.project(sqlite_url, GROUP_COMMIT=group_commit), listening() as sent:
            assert [post(body).status_code for body in (DELIVERY, STRANGER, b"")] == [200, 404, 422]
            probe = post(Postmark.compose_probe(), headers={"User-Agent": PROBE_AGENT.decode()})
            assert probe.status_code == 404
            receiver().close()
        gc.collect()  # the connection of the thread, which would warn in another test
        assert sorted((signal is notification_recorded, body) for signal, body, _ in sent) == [
            (False, b""),
            (False, STRANGER),
            (True, DELIVERY),
        ]
        assert delivered(sqlite_url) == AT
        failed = [each for each in caplog.records if each.exc_info]
        assert {each.getMessage().partition(":")[0] for each in failed} == {
            f"A signal listener raised {name} at {__file__}" for name in ("KeyError", "ValueError")
        }
        assert {each.name for each in failed} == {"hookrow"}
        assert ADA not in caplog.text

    @pytest.mark.parametrize("group_commit", [False, True])
    def test_async_listener(self, sqlite_url: str, *, group_commit: bool) -> None:
        bodies = []

        async def listen(arrival: Arrival, **_: object) -> None:
            await asyncio.sleep(0)
            bodies.append(arrival.body)

        notification_recorded.connect(listen)
        world.fill(sqlite_url)
        with django_host.project(sqlite_url, GROUP_COMMIT=group_commit):
            assert post(DELIVERY).status_code == 200
            receiver().close()
        notification_recorded.disconnect(listen)
        gc.collect()  # the connection of the thread, which would warn in another test
        assert bodies == [DELIVERY]

    @pytest.mark.parametrize("threads", [False, True])
    def test_a_transaction_of_the_project(self, database_url: str, *, threads: bool) -> None:
        """Signals wait for the project's commit; after a rollback, nothing is recorded.

        No thread starts, because it would not see the transaction.
        """
        world.fill(database_url)
        running = active_count()
        with (
            django_host.project(database_url, GROUP_COMMIT=threads, SWEEP=threads) as alias,
            listening() as sent,
        ):
            with suppress(KeyError), atomic(alias):
                assert [post(body).status_code for body in (DELIVERY, STRANGER)] == [200, 404]
                raise KeyError
            assert (sent, delivered(database_url)) == ([], None)
            with atomic(alias):
                assert post(DELIVERY).status_code == 200
                assert post(DELIVERY, "a-wrong-secret").status_code == 401
                assert not sent
            assert [signal for signal, _, _ in sent] == [notification_recorded]
            assert delivered(database_url) == AT
            assert active_count() <= running  # a thread of another test may end

    def test_atomic_requests(self, sqlite_url: str) -> None:
        """The view is exempt from `ATOMIC_REQUESTS`: the response follows the commit."""
        world.fill(sqlite_url)
        with django_host.default(sqlite_url, ATOMIC_REQUESTS=True), listening() as sent:
            assert post(DELIVERY).status_code == 200
        assert [in_transaction for _, _, in_transaction in sent] == [False]

    def test_an_outage(self, sqlite_url: str) -> None:
        """The response is a 503, and no signal is sent."""
        world.fill(sqlite_url)
        with django_host.project(sqlite_url) as alias, listening() as sent:
            connections[alias].cursor().execute("ALTER TABLE hookrow_dispatches RENAME TO away")
            assert post(DELIVERY).status_code == 503
            assert not sent
