"""The endpoint in a Django project: whatever the project asks for, it answers as the contract."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from threading import active_count
from typing import Any, ClassVar, Self

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.db import connections
from django.db.transaction import atomic
from django.test import AsyncClient, Client, override_settings
from django.urls import include, reverse
from django.urls import path as url
from prometheus_client import CollectorRegistry

import django_host
import world
from hookrow import Arrival, Recorded, Refused, testing
from hookrow.django import receiver
from hookrow.django.signals import notification_recorded, notification_refused
from hookrow.django.views import webhooks
from hookrow.http import LARGEST_BODY
from hookrow.metrics import Metrics
from hookrow.outside.asking import UNKNOWN, filled
from wire import SECRET, TEXT, eventually

PATH = "/mail/provider/webhooks"
ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
DELIVERY = json.dumps(testing.delivery(ADA, ADAS, at=AT)).encode()
STRANGER = json.dumps(testing.delivery("eve@example.com", ADAS, at=AT)).encode()
HEADERS = {"X-Provider-Secret": SECRET}


@pytest.fixture
def alias(database_url: str) -> Iterator[str]:
    """Put in the rows of the cases, and have the project record there."""
    world.fill(database_url)
    with django_host.project(database_url) as alias:
        yield alias


def post(body: bytes = DELIVERY, path: str = PATH, **options: Any) -> Any:  # noqa: ANN401 - a response
    """Post a body as the provider does."""
    client = Client(enforce_csrf_checks=True, headers=HEADERS)
    return client.post(path, body, "application/json", **options)


def delivered(url: str) -> object:
    """Read when Ada's dispatch was delivered."""
    return world.rows(url)["dispatches"][0]["delivered_at"]


@pytest.mark.usefixtures("alias")
class TestAnswers:
    """Over Django's whole stack of handlers and middleware."""

    @pytest.mark.parametrize("path", [PATH, f"{PATH}/"])
    def test_with_a_slash_or_without(self, database_url: str, path: str) -> None:
        """It is recorded, with no redirect between."""
        response = post(path=path)
        assert (response.status_code, response.content) == (200, b"")
        assert (response["Content-Type"], response["Content-Length"]) == (TEXT, "0")
        assert delivered(database_url) == AT
        assert reverse("hookrow:webhooks") == PATH

    @pytest.mark.parametrize("path", [PATH, f"{PATH}/"])
    def test_a_mount_without_a_slash(self, database_url: str, path: str) -> None:
        """What the project forgets at the end of its path is no other place."""
        mount = url("mail", include("hookrow.django.urls"))
        with override_settings(ROOT_URLCONF=(mount,)):
            assert post(path=path).status_code == 200
        assert delivered(database_url) == AT

    def test_on_asgi(self, database_url: str) -> None:
        """The same view answers there."""

        async def ask() -> list[Any]:
            client = AsyncClient()
            posted = await client.post(PATH, DELIVERY, "application/json", headers=HEADERS)
            return [posted, await client.get(PATH), await client.post(PATH)]

        assert [each.status_code for each in asyncio.run(ask())] == [200, 405, 401]
        assert delivered(database_url) == AT

    @pytest.mark.parametrize("secret", [None, "", "wrong", f"{SECRET},{SECRET}", "\xe4", "\u20ac"])
    def test_without_the_secret(self, database_url: str, secret: str | None) -> None:
        """It is refused before a byte of the body is read."""
        environ = {} if secret is None else {"HTTP_X_PROVIDER_SECRET": secret}
        assert _answered(_Untouched(), CONTENT_LENGTH="100", secret=None, **environ) == 401
        assert delivered(database_url) is None

    @pytest.mark.parametrize("limit", [10, None])
    def test_the_limits_of_the_project(self, database_url: str, limit: int | None) -> None:
        """They are for its own views: what we take is a mebibyte."""
        with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=limit):
            assert post().status_code == 200
            assert post(b" " * LARGEST_BODY).status_code == 422
            response = post(b" " * (LARGEST_BODY + 1))
        assert (response.status_code, response.content) == (413, b"Webhook payload too large")
        assert delivered(database_url) == AT

    def test_transactions_of_requests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What it answers is committed, also with ATOMIC_REQUESTS: it is in none of these."""
        monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)  # noqa: FBT003 - the setting
        handler = WSGIHandler()
        assert handler.make_view_atomic(post) is not post
        assert handler.make_view_atomic(webhooks) is webhooks

    def test_a_project_behind_a_login(self, database_url: str) -> None:
        """The secret is the only check."""
        middleware = [
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.auth.middleware.LoginRequiredMiddleware",
        ]
        with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, *middleware]):
            assert post().status_code == 200
        assert delivered(database_url) == AT

    def test_settings_may_change(self) -> None:
        """A test that overrides them has a receiver of its own."""
        first = receiver()
        assert receiver() is first
        with override_settings(HOOKROW={**settings.HOOKROW, "SECRET": "another-secret"}):
            assert post().status_code == 401
        assert receiver() is not first
        assert post().status_code == 200


class _Untouched(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise AssertionError(size)


class _Gone(BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise ConnectionResetError(size)


def _answered(stream: BytesIO, *, secret: str | None = SECRET, **environ: Any) -> int:  # noqa: ANN401 - of any kind
    """Call the view as a WSGI server would, with an environment of its own."""
    given = {"REQUEST_METHOD": "POST", "PATH_INFO": PATH, "wsgi.input": stream, **environ}
    if secret is not None:
        given["HTTP_X_PROVIDER_SECRET"] = secret
    return webhooks(WSGIRequest(given)).status_code


@pytest.mark.usefixtures("alias")
class TestBodies:
    """What a WSGI server may hand over."""

    CHUNKED: ClassVar[dict[str, Any]] = {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input_terminated": True,
    }

    def test_in_chunks(self, database_url: str) -> None:
        """Read to their end, where the server says that there is one."""
        assert _answered(BytesIO(DELIVERY), **self.CHUNKED) == 200
        assert delivered(database_url) == AT

    @pytest.mark.parametrize(
        ("stream", "environ", "status"),
        [
            pytest.param(b" " * 2 * LARGEST_BODY, CHUNKED, 413, id="chunks-too-long"),
            pytest.param(_Untouched, {**CHUNKED, "wsgi.input_terminated": False}, 411, id="411"),
            pytest.param(_Untouched, {"CONTENT_LENGTH": "1048577"}, 413, id="declared"),
            pytest.param(_Gone, {"CONTENT_LENGTH": "99"}, 408, id="gone"),
            pytest.param(_Untouched, {}, 422, id="none"),
        ],
    )
    def test_that_are_refused(
        self,
        database_url: str,
        stream: bytes | type[BytesIO],
        environ: dict[str, Any],
        status: int,
    ) -> None:
        """By their length, or for breaking off: then nothing changes."""
        before = world.rows(database_url)
        given = BytesIO(stream) if isinstance(stream, bytes) else stream()
        assert _answered(given, **environ) == status
        assert world.rows(database_url) == before


class _Heard:
    """Listens to both signals during a block."""

    def __init__(self) -> None:
        self.ends: list[tuple[object, Arrival, Recorded | Refused]] = []

    def __call__(self, sender: object, **told: Any) -> None:  # noqa: ANN401 - Django's own
        self.ends.append((told.pop("signal"), told.pop("arrival"), told.pop("outcome")))
        raise ZeroDivisionError(sender, told)

    def __enter__(self) -> Self:
        for signal in (notification_recorded, notification_refused):
            signal.connect(self)
        return self

    def __exit__(self, *_: object) -> None:
        for signal in (notification_recorded, notification_refused):
            signal.disconnect(self)


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
class TestSignals:
    """The host's own code hears how a notification ended."""

    @pytest.mark.parametrize("group_commit", [False, True])
    def test_each_end_once(
        self, database_url: str, caplog: pytest.LogCaptureFixture, *, group_commit: bool
    ) -> None:
        """After the commit. What a receiver of the signal raises is logged and harms nothing."""
        world.fill(database_url)
        with django_host.project(database_url, GROUP_COMMIT=group_commit), _Heard() as heard:
            assert [post(body).status_code for body in (DELIVERY, STRANGER, b"")] == [200, 404, 422]
            receiver().close()
        gc.collect()  # the connection of the thread, lest another test be warned of it
        ends = [notification_recorded, notification_refused, notification_refused]
        assert sorted(map(id, ends)) == sorted(id(signal) for signal, _, _ in heard.ends)
        assert {arrival.body for _, arrival, _ in heard.ends} == {DELIVERY, STRANGER, b""}
        assert delivered(database_url) == AT
        assert "A receiver of a signal raised" in caplog.text

    @pytest.mark.parametrize("threads", [False, True])
    def test_in_a_transaction_of_the_host(self, database_url: str, *, threads: bool) -> None:
        """They wait for its commit; without one nothing has happened, and nobody hears.

        No thread is started, for it would see nothing of that.
        """
        world.fill(database_url)
        running = active_count()
        with django_host.project(database_url, GROUP_COMMIT=threads, SWEEP=threads) as alias:
            self.hear_in_a_transaction(alias, database_url)
            assert active_count() <= running  # one of another test may end

    def hear_in_a_transaction(self, alias: str, database_url: str) -> None:
        """Roll one back, and commit one."""
        with _Heard() as heard, suppress(KeyError), atomic(alias):
            assert post().status_code == 200
            assert post(STRANGER).status_code == 404
            assert not heard.ends
            raise KeyError
        assert (heard.ends, delivered(database_url)) == ([], None)
        with _Heard() as heard, atomic(alias):
            assert post().status_code == 200
        assert [signal for signal, _, _ in heard.ends] == [notification_recorded]
        assert delivered(database_url) == AT

    @pytest.mark.parametrize("group_commit", [False, True])
    def test_none_of_a_check(self, database_url: str, *, group_commit: bool) -> None:
        """Nobody hears of what `manage.py hookrow check URL` posts."""
        world.fill(database_url)
        with django_host.project(database_url, GROUP_COMMIT=group_commit), _Heard() as heard:
            assert [post(body).status_code for body in (UNKNOWN, filled(99))] == [404, 422]
            receiver().close()
        gc.collect()  # as above
        assert heard.ends == []

    def test_an_outage_is_no_end(self, alias: str, database_url: str) -> None:
        """It answers 503 as promised, and nobody hears."""
        with _Heard() as heard, connections[alias].cursor() as cursor:
            cursor.execute("ALTER TABLE hookrow_dispatches RENAME TO away")
            assert post().status_code == 503
            cursor.execute("ALTER TABLE away RENAME TO hookrow_dispatches")
        assert heard.ends == []
        assert delivered(database_url) is None


@pytest.mark.usefixtures("alias")
class TestObserver:
    def test_metrics(self) -> None:
        """It hears of all that the endpoint answers, and each answer names its request."""
        assert post(STRANGER).status_code == 404
        registry = CollectorRegistry()
        observed = {**settings.HOOKROW, "OBSERVER": Metrics(registry)}
        with override_settings(HOOKROW=observed):
            response = post(headers={**HEADERS, "X-Request-Id": "r-1"})
            assert (response.status_code, response["X-Request-Id"]) == (200, "r-1")
            assert post(b"x" * (LARGEST_BODY + 1)).status_code == 413
            eventually(lambda: registry.get_sample_value("hookrow_parked") == 1)
        ended = {"type": "delivered", "outcome": "recorded"}
        assert registry.get_sample_value("hookrow_notifications_total", ended) == 1
        refused = {"refusal": "too_large"}
        assert registry.get_sample_value("hookrow_requests_refused_total", refused) == 1
