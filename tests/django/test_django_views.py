"""The endpoint in a Django project keeps the contract, regardless of the project's settings."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from threading import active_count
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.db.transaction import atomic
from django.test import AsyncClient, Client, override_settings
from django.urls import include, reverse
from django.urls import path as url
from prometheus_client import CollectorRegistry

import django_host
import world
from django_project.site import post
from hookrow import Arrival, testing
from hookrow.diagnostics.probe import BODY as PROBE
from hookrow.django import receiver
from hookrow.django.signals import notification_recorded, notification_refused
from hookrow.django.views import webhooks
from hookrow.http import MAX_BODY
from hookrow.metrics import Metrics
from wire import ADA, ADAS, AT, DELIVERY, ENDPOINT, SECRET, STRANGER, TEXT, eventually

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
        refused = {"refusal": "too_large"}
        assert registry.get_sample_value("hookrow_requests_refused_total", refused) == 1


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


@contextmanager
def listening() -> Iterator[list[tuple[object, bytes, bool]]]:
    """Yield the signals sent in a block, the bodies, and whether in a transaction; raise errors."""
    sent: list[tuple[object, bytes, bool]] = []

    def listen(signal: object, arrival: Arrival, **_: object) -> None:
        sent.append((signal, arrival.body, connections["default"].in_atomic_block))
        raise ZeroDivisionError

    listener = partial(listen)  # it has no name, which Django would log
    for signal in (notification_recorded, notification_refused):
        signal.connect(listener)
    yield sent
    for signal in (notification_recorded, notification_refused):
        signal.disconnect(listener)


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
class TestSignals:
    @pytest.mark.parametrize("group_commit", [False, True])
    def test_outcomes(
        self, sqlite_url: str, caplog: pytest.LogCaptureFixture, *, group_commit: bool
    ) -> None:
        """Each outcome is sent once, after the commit; errors in listeners are only logged.

        Requests of `hookrow check URL` are not sent.
        """
        world.fill(sqlite_url)
        with django_host.project(sqlite_url, GROUP_COMMIT=group_commit), listening() as sent:
            bodies = (DELIVERY, STRANGER, b"", PROBE)
            assert [post(body).status_code for body in bodies] == [200, 404, 422, 404]
            receiver().close()
        gc.collect()  # the connection of the thread, which would warn in another test
        assert sorted((signal is notification_recorded, body) for signal, body, _ in sent) == [
            (False, b""),
            (False, STRANGER),
            (True, DELIVERY),
        ]
        assert delivered(sqlite_url) == AT
        assert "A signal listener raised" in caplog.text

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
