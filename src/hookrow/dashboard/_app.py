"""The dashboard's handler: authenticates requests, routes them to pages, secures responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from http import HTTPStatus
from inspect import iscoroutine
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from hookrow._arguments import check_flags, check_function, is_async, kind_of, reject
from hookrow._core.status import Status
from hookrow._describe import printable
from hookrow._diagnostics.status import StatusSource
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._faults import describe_bug, describe_fault, log_fault, type_name, without_values
from hookrow._http import (
    ENDPOINT,
    Handler,
    Request,
    RequestHead,
    Response,
    is_loopback,
    plain,
    reject_call,
)
from hookrow._observability.logging import mask_email
from hookrow._receiver.entries import Parsers, Tenant, introduce, read_parsers
from hookrow._statistics import Statistics
from hookrow.dashboard import _actions, _auth, _pages
from hookrow.dashboard._actions import Done
from hookrow.dashboard._forms import (
    LOG_FILTERS,
    BadRequest,
    Fields,
    Forbidden,
    NotFound,
    parse_fields,
)
from hookrow.dashboard._lists import LIST_FIELDS, lists
from hookrow.dashboard._parked import PARKED_FILTERS, parked, replay_parked
from hookrow.dashboard._queries import Context
from hookrow.dashboard._suppressions import SUPPRESSION_FILTERS, download, suppressions
from hookrow.dashboard._templating import Redirect, View, render, static_files
from hookrow.errors import ConfigurationError
from hookrow.providers import BodyParser
from hookrow.providers.postmark import Postmark
from hookrow.stores._errors import StoreError
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql._store import SQLStore, check_store

logger = logging.getLogger("hookrow")

ParserOrParsers: TypeAlias = BodyParser | Mapping[str, BodyParser] | Mapping[str, Tenant] | Parsers
"""What a host passes to a dashboard, so that it reads the log."""

Action: TypeAlias = Callable[[Context, Fields, Fields, str], Done]
"""Performs an action, given the fields of the query string and the form, and the user's name."""


class Page(NamedTuple):
    """A page or a file, the fields of its query string, and the action of its forms."""

    show: Callable[[Context, Fields], View | Redirect | Response]
    fields: Collection[str] = ()
    act: Action | None = None


_HISTORY_FIELDS = ("entry", "before", "after", "done")

PAGES = {
    "": Page(_pages.overview, ("period", "entry")),
    "lists": Page(lists, LIST_FIELDS),
    "suppressions": Page(suppressions, (*SUPPRESSION_FILTERS, "before", "after")),
    "suppressions.csv": Page(download, SUPPRESSION_FILTERS),
    "notifications": Page(_pages.notifications, (*LOG_FILTERS, "before", "after", "rows")),
    "parked": Page(parked, (*PARKED_FILTERS, "before", "after"), replay_parked),
    "notification": Page(_pages.notification, ("id", "done"), _actions.replay),
    "subscriber": Page(_pages.subscriber, ("email", *_HISTORY_FIELDS), _actions.change_suppression),
    "search": Page(_pages.search, ("q",)),
    "dispatch": Page(
        _pages.dispatch, ("message_id", *_HISTORY_FIELDS), _actions.change_suppression
    ),
}
"""The pages by path."""

FORM_PAGES = frozenset(name for name, page in PAGES.items() if page.act)
"""The pages with forms."""

_NEXT = {"suppressions": "suppressions", "suppressions.csv": "suppressions"}
"""The page to which an error links, by the name of the page; otherwise, the notifications."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # With no-referrer, browsers would send no origin with a form, either.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every response, unless it has its own: pages load nothing from other servers, run
no inline scripts, and are neither framed nor stored."""

PAGE_TIMEOUT = 4.0
"""Seconds that a page may wait for the database, apart from reconnecting.

It is shorter than the time that `asgi` waits for a handler, so that the page can report the error.
"""


class Address(NamedTuple):
    """The name of a page or file, and the URL of the dashboard relative to the request's.

    A trailing slash changes only the relative URL. `origin` is the beginning of the host's public
    URLs, such as `https://app.example.com`.
    """

    name: str
    base: str
    origin: str

    @classmethod
    def of(cls, head: RequestHead) -> Address:
        """Return the address of a request."""
        path, origin = _path_below_root(head), _origin(head)
        if not path and (last := head.path.rpartition("/")[2]):
            return cls("", f"./{quote(last)}/", origin)
        return cls(path.strip("/"), "../" * (path.count("/") - 1) or "./", origin)


class Dashboard(Handler):
    """Serves pages about the store and its log; any host mounts it separately from the receiver.

    `authorize` authenticates users: `basic(user, password)`, or a function of the host.
    `providers` is `receiver.entries`, or the first argument of the `Receiver`, in which a class may
    take the place of each provider. `endpoint` is the path or the URL of the receiver's endpoint,
    such as "/mail/provider/webhooks", which the overview shows until the first notification
    arrives. `provider_status` returns a line about the webhooks at the provider for the overview,
    or None; it must not block. `status` is that of `Readiness(receiver)`, if the receiver is in
    this process: otherwise, the status at the top of each page does without what only the receiver
    knows, which is its spool and its last 503s. With `keep_bodies=False`, the log does not store
    the author of a manual change.

    A page waits at most about ten seconds for the database; in ASGI hosts, the response is a 503
    after five. In WSGI hosts and in Django, it waits in the thread of the request; in Django, the
    limits of the project's connections also apply.

    Raises `ConfigurationError` without `authorize`, because a dashboard must not be open to all,
    and if another argument is not valid.
    """

    _command = "hookrow"
    """The command of the host, which the overview shows."""

    def __init__(
        self,
        store: SQLStore,
        *,
        authorize: _auth.Authorize | None = None,
        providers: ParserOrParsers = Postmark,
        endpoint: str | None = None,
        provider_status: Callable[[], str | None] | None = None,
        status: Callable[[], Status] | None = None,
        keep_bodies: bool = True,
    ) -> None:
        if authorize is None:
            raise ConfigurationError(
                "The dashboard is never open by default: pass authorize, "
                "for example authorize=basic(user, password)."
            )
        check_store(store)
        check_function("authorize", authorize, "head")
        if is_async(authorize):
            raise ConfigurationError(
                "authorize is an async function, but the dashboard calls it in a thread: write "
                "def authorize(head)."
            )
        parsers = read_parsers(providers)
        introduce(parsers, store)
        if endpoint is not None:
            _check_endpoint(endpoint)
        if provider_status is not None:
            check_function("provider_status", provider_status)
        if status is not None:
            check_function("status", status)
        check_flags(keep_bodies=keep_bodies)
        self._authorize = authorize
        self._reader = StatusReader(StatusSource(store=store, parsers=parsers))
        self._status = status or self._reader
        self._context = Context(
            store,
            Statistics(store),
            parsers,
            endpoint=endpoint,
            command=self._command,
            provider_status=provider_status or (lambda: None),
            keep_bodies=keep_bodies,
        )

    def admit(self, head: RequestHead) -> Response | None:
        """Refuse requests without access before their body is read."""
        user = self._authenticate(head)
        if isinstance(user, Response):
            return user
        head.context[self] = user
        return None

    def __call__(self, request: Request, *others: object) -> Response:
        """Respond to a request; call `authorize` unless `admit` has already called it."""
        if others or not isinstance(request, Request):
            return reject_call("dashboard", self, request, *others)
        user = request.head.context.pop(self, None) or self._authenticate(request.head)
        return user if isinstance(user, Response) else self.respond(request, user)

    @limited_to(PAGE_TIMEOUT)
    def respond(
        self, request: Request, user: str, *, allowed: Collection[str] = FORM_PAGES
    ) -> Response:
        """Respond to a request of a user whom the host has authenticated.

        `allowed` contains the names of the pages whose forms the user may submit.
        """
        address = Address.of(request.head)
        try:
            response = self._respond(request, address, user, allowed)
        except BadRequest as error:
            response = self._error(address, error.status, str(error))
        except StoreError as error:
            response = self._error(address, 503, f"The database cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - any fault of a page
            id_ = request.head.request_id
            log_fault(
                error,
                "The dashboard failed, request %s: %s",
                id_,
                describe_bug(error),
                extra={"request_id": id_},
            )
            name = type_name(error)
            response = self._error(
                address, 500, f"The page failed with {name}. See the server's log."
            )
        return _secure(response)

    def close(self, timeout: float | None = None) -> None:
        """Stop counting tables; wait up to `timeout` seconds for a count in progress."""
        self._context.statistics.close(timeout)
        self._reader.close()

    def _authenticate(self, head: RequestHead) -> str | Response:
        """Return the name of the user, or the response that denies access."""
        try:
            result = self._authorize(head)
        except Exception as error:  # noqa: BLE001 - raised by the host's function
            return _not_authenticated(head, f"authorize raised {describe_fault(error)}", error)
        if isinstance(result, Response):
            return _secure(result)
        if not isinstance(result, bool | str):
            if iscoroutine(result):
                result.close()
            expected = "authorize must return a name, a bool or a Response"
            return _not_authenticated(head, f"{expected}, not {kind_of(result)}")
        if not result:
            return _secure(plain(403, "You do not have access to this dashboard."))
        return "unknown" if result is True else result

    def _respond(
        self, request: Request, address: Address, user: str, allowed: Collection[str]
    ) -> Response:
        head, name = request.head, address.name
        reads = head.method in {"GET", "HEAD"}
        if file := static_files().get(name):
            return file if reads else self._not_allowed(address)
        if name not in PAGES:
            raise NotFound("This page does not exist.")
        page = PAGES[name]
        if reads:
            return self._show(page, address, head, user, allowed)
        if head.method != "POST" or page.act is None:
            return self._not_allowed(address, form=page.act is not None)
        if name not in allowed:
            raise Forbidden("You may view this page, but not submit its forms.")
        return self._submit(page, page.act, address, request, user)

    def _show(
        self,
        page: Page,
        address: Address,
        head: RequestHead,
        user: str,
        allowed: Collection[str],
    ) -> Response:
        view = page.show(self._context, parse_fields(head.query, page.fields))
        if isinstance(view, Response):
            if head.method == "GET":
                _log_action(head, user, "downloaded suppressions as CSV")
            return view
        return self._render(view, address, user, may=address.name in allowed)

    def _error(
        self,
        address: Address,
        code: int,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the page of an error, with the status, which may be its cause."""
        values = {
            "title": HTTPStatus(code).phrase.capitalize(),
            "message": message,
            "is_fault": code >= HTTPStatus.INTERNAL_SERVER_ERROR,
            "next": _NEXT.get(address.name, "notifications"),
        }
        view = View("error.html", values)
        response = render(view, code, status=self._status(), user="", base=address.base)
        return replace(response, headers={**response.headers, **(headers or {})})

    def _not_allowed(self, address: Address, *, form: bool = False) -> Response:
        """Return the response to a method that a page, which may have a form, does not support."""
        allow = "GET, HEAD, POST" if form else "GET, HEAD"
        return self._error(
            address, 405, "This page does not support this method.", {"Allow": allow}
        )

    def _render(self, view: View | Redirect, address: Address, user: str, *, may: bool) -> Response:
        name, base, origin = address
        if isinstance(view, Redirect):
            return Response(303, b"", {"Location": f"{base}{view.location}"})
        tenants = self._context.parsers.have_tenants
        return render(
            view,
            status=self._status(),
            user=user,
            page=name,
            base=base,
            origin=origin,
            may=may,
            tenants=tenants,
        )

    def _submit(
        self, page: Page, act: Action, address: Address, request: Request, user: str
    ) -> Response:
        head = request.head
        form = parse_fields(request.body.decode("utf-8", "replace"), _actions.FORM_FIELDS)
        if not _auth.is_own_form(head):
            raise Forbidden(
                "The form was not sent by a page of this dashboard, "
                "or a proxy did not preserve the Host header."
            )
        action = act(self._context, parse_fields(head.query, page.fields), form, user)
        _log_action(head, user, action.summary)
        return self._render(action.page, address, user, may=True)


def _not_authenticated(head: RequestHead, cause: str, error: Exception | None = None) -> Response:
    id_ = head.request_id
    logger.error(
        "The dashboard cannot authenticate request %s: %s.",
        id_,
        cause,
        exc_info=None if error is None else without_values(error),
        extra={"request_id": id_},
    )
    return _secure(plain(500, "The request cannot be authenticated; see the server's log."))


def _log_action(head: RequestHead, user: str, summary: str) -> None:
    logger.info(
        "Dashboard user %s %s, request %s",
        printable(mask_email(user) if "@" in user else user)[:80],
        summary,
        head.request_id,
        extra={"request_id": head.request_id},
    )


def _check_endpoint(endpoint: object) -> None:
    """Raise `ConfigurationError` unless an endpoint is a path or a URL."""
    if not isinstance(endpoint, str) or not endpoint.startswith(("/", "http://", "https://")):
        reject("endpoint", "a path or a URL", endpoint, f'endpoint="/mail{ENDPOINT}"')


def _origin(head: RequestHead) -> str:
    """Return the beginning of the public URLs of the host to which a request was sent.

    A proxy often terminates TLS, so the scheme of the request says nothing; providers need HTTPS.
    """
    host = (head.header("host") or b"localhost").decode("latin-1")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return f"{'http' if is_loopback(name) else 'https'}://{host}"


def _path_below_root(head: RequestHead) -> str:
    """Return the path without the root.

    Behind a proxy, sometimes only the end of the root is a prefix of the path (FastAPI's
    `root_path`). A host that has removed the mount path may still report it as its root.
    """
    parts = head.root.rstrip("/").split("/")[1:]
    for start in range(len(parts)):
        prefix = "/" + "/".join(parts[start:])
        if f"{head.path}/".startswith(f"{prefix}/"):
            return head.path.removeprefix(prefix)
    return head.path


def _secure(response: Response) -> Response:
    return replace(response, headers={**SECURITY_HEADERS, **response.headers})
