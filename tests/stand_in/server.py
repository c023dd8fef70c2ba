"""The stand-in: an HTTP server with the API, and methods that make events happen."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from threading import Event as Signal
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from stand_in import posts, routes, webhook_routes
from stand_in.events import Events, create_suppressions, delete_suppressions
from stand_in.routes import Call, Refused, Route
from stand_in.state import Event, Fault, Injected, State, Stream, Webhook

_ROUTES: Sequence[tuple[str, re.Pattern[str], Route]] = [
    (method, re.compile(path), route)
    for method, path, route in (
        ("GET", "/server", routes.get_server),
        ("GET", "/message-streams", routes.list_streams),
        ("GET", "/message-streams/([^/]+)/suppressions/dump", routes.dump_suppressions),
        ("POST", "/message-streams/([^/]+)/suppressions", create_suppressions),
        ("POST", "/message-streams/([^/]+)/suppressions/delete", delete_suppressions),
        ("GET", "/webhooks", webhook_routes.list_webhooks),
        ("POST", "/webhooks", webhook_routes.create_webhook),
        ("GET", r"/webhooks/(\d+)", webhook_routes.get_webhook),
        ("PUT", r"/webhooks/(\d+)", webhook_routes.edit_webhook),
        ("DELETE", r"/webhooks/(\d+)", webhook_routes.delete_webhook),
        ("POST", r"/webhooks/(\d+)/verify", webhook_routes.verify_webhook),
        ("GET", r"/webhooks/(\d+)/statistics", webhook_routes.webhook_statistics),
        ("GET", "/messages/outbound/opens", routes.list_opens),
        ("GET", "/messages/outbound/([^/]+)/details", routes.get_message),
    )
]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that the stand-in has received; `path` includes the query."""

    method: str
    path: str
    body: bytes


class PostmarkStandIn(Events):
    """A stand-in for Postmark's API on a loopback port, with the state of one server.

    `with PostmarkStandIn() as api:` runs it for the duration of a block. A client uses
    `api.address` and `api.token`. Webhooks that it registers are verified by real posts, and
    events that happen (`deliver`, `open`, `suppress` and others) are posted to them as the
    provider would, after `flush`. The clock begins at `now`, by default a day ago, and only
    advances by `advance`, which also makes the retries that are due; `skew` is the difference of
    the `Date` header from the real time.
    """

    def __init__(
        self, *, now: datetime | None = None, server: int = 4711, skew: timedelta = timedelta(0)
    ) -> None:
        super().__init__(State(now or datetime.now(UTC) - timedelta(days=1), server))
        self.token = f"standin-{token_hex(8)}"
        self.skew = skew
        self.requests: list[RecordedRequest] = []
        self._faults: list[Injected] = []
        self._closing = Signal()
        handler = partial(_Handler, self)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True

    @property
    def address(self) -> str:
        """The address of the API, without a trailing slash."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()

    # -- The state, and what happens -------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The time of the stand-in's clock, in UTC."""
        return self.state.now

    @property
    def webhooks(self) -> Sequence[Webhook]:
        """The saved webhooks, the oldest first."""
        with self.state.lock:
            return list(self.state.webhooks.values())

    @property
    def events(self) -> Sequence[Event]:
        """All events for webhooks, the oldest first, with the attempts to post them."""
        with self.state.lock:
            return list(self.state.events)

    def add_stream(self, name: str, kind: str = "Transactional", *, archived: bool = False) -> None:
        """Add a message stream; `kind` is "Transactional", "Broadcasts" or "Inbound"."""
        with self.state.lock:
            self.state.streams[name] = Stream(name, kind, self.now if archived else None)

    def flush(self) -> None:
        """Post all events that are due."""
        posts.deliver_due(self.state, self.now)

    def advance(self, by: timedelta) -> None:
        """Advance the clock, and post all events that become due meanwhile, in order."""
        posts.deliver_due(self.state, self.now + by)

    def inject(
        self, fault: Fault, times: int = 1, *, method: str | None = None, path: str = ""
    ) -> None:
        """Inject a fault into the next responses to requests with a method and a path.

        `path` is a text that their path contains; without `method`, it can be any.
        """
        with self.state.lock:
            self._faults.append(Injected(fault, times, method, path))

    # -- The API ---------------------------------------------------------------------------

    def respond(self, request: RecordedRequest, token: str) -> tuple[int, bytes] | None:
        """Return the status and body of the response, or None for no response."""
        with self.state.lock:
            self.requests.append(request)
            faults = [each for each in self._faults if each.matches(request.method, request.path)]
            if faults:
                faults[0].times -= 1
        if not faults:
            return self._call(request, token)
        match faults[0].fault:
            case Fault.RATE_LIMIT:
                return 429, b'{"ErrorCode": 429, "Message": "Rate Limit Exceeded"}'
            case Fault.MAINTENANCE:
                body = {"ErrorCode": 100, "Message": "The API is offline for maintenance."}
                return 503, json.dumps(body).encode()
            case Fault.NOT_JSON:
                return 200, b"<html><title>Login</title></html>"
            case Fault.ERROR_AFTER_CHANGE:
                self._call(request, token)
                return 500, b'{"ErrorCode": 0, "Message": "Internal Server Error"}'
            case Fault.RESET_AFTER_CHANGE:
                self._call(request, token)
            case Fault.TIMEOUT_AFTER_CHANGE:
                self._call(request, token)
                self._closing.wait()
            case Fault.RESET:
                pass
        return None

    def _call(self, request: RecordedRequest, token: str) -> tuple[int, bytes]:
        """Return the response of the route."""
        try:
            found = self._result(request, token)
        except Refused as error:
            return error.status, json.dumps(error.body).encode()
        return 200, json.dumps(found).encode()

    def _result(self, request: RecordedRequest, token: str) -> Mapping[str, Any]:
        """Call the route of a request. Raises `Refused`."""
        if token != self.token:
            text = "Request does not contain a valid Server token."
            raise Refused(10, text, HTTPStatus.UNAUTHORIZED)
        url = urlsplit(request.path)
        query = {name.lower(): value for name, value in parse_qsl(url.query)}
        for method, path, route in _ROUTES:
            if method == request.method and (match := path.fullmatch(url.path)):
                try:
                    body = json.loads(request.body or b"{}")
                except ValueError as error:
                    raise Refused(402, "Invalid JSON.") from error
                return route(self.state, Call(match.groups(), query, body))
        raise Refused(0, "Not Found", HTTPStatus.NOT_FOUND)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request of the API, and writes the response; logs nothing."""

    protocol_version = "HTTP/1.1"

    def __init__(self, api: PostmarkStandIn, *arguments: Any) -> None:  # noqa: ANN401
        self._api = api
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Respond to a request of any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = RecordedRequest(self.command, self.path, body)
        token = self.headers.get("X-Postmark-Server-Token") or ""
        found = self._api.respond(request, token)
        if found is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, text = found
        self.send_response_only(status)
        self.send_header("Date", format_datetime(datetime.now(UTC) + self._api.skew, usegmt=True))
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            self.send_header("X-PM-ApiErrorCode", str(_error_code(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names that http.server calls


def _error_code(text: bytes) -> int:
    """Return the code of an error; the result of a failed verification has none in its body."""
    found: Mapping[str, Any] = json.loads(text)
    return int(found.get("ErrorCode", 1364))
