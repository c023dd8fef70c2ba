"""The handler: who asks, for which page, and what every answer says to the browser."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from hookrow.dashboard import actions, pages
from hookrow.dashboard.asking import Mistake, fields
from hookrow.dashboard.drawing import Drawn, draw
from hookrow.dashboard.site import Site
from hookrow.dashboard.visitor import COOKIE, Authorize, is_ours, new_token, token
from hookrow.errors import ConfigurationError
from hookrow.http import Request, RequestHead, Response, plain
from hookrow.providers import Parse, postmark
from hookrow.statistics import Statistics
from hookrow.stores import Store, StoreError
from hookrow.stores.timeouts import limited_to

log = logging.getLogger("hookrow")

PAGES = {
    "": pages.overview,
    "lists": pages.lists,
    "notifications": pages.notifications,
    "notification": pages.notification,
    "subscriber": pages.subscriber,
    "dispatch": pages.dispatch,
}
"""What there is to see. All lie side by side, so that any link and cookie leads to any."""

ACTIONS = {
    "notification": actions.replay,
    "subscriber": actions.change,
    "dispatch": actions.change,
}
"""What there is to do, on the page of that name."""

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would not say where a form comes from, either.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_CSS, _JS = "text/css; charset=utf-8", "text/javascript; charset=utf-8"

_STATIC = {
    "charts.js": _JS,
    "dashboard.css": _CSS,
    "fresh.js": _JS,
    "icon.svg": "image/svg+xml",
    "live.js": _JS,
    "uPlot.min.css": _CSS,
    "uPlot.min.js": _JS,
}

PATIENCE = 4.0
"""In seconds; how long a page may ask the database. A connection that is lost costs some more.

It is less than `asgi` waits for a call, so that the page can still say what is wrong.
"""

_KEPT = {"Cache-Control": "private, max-age=3600"}
"""Files change with the version, which their addresses name."""


class Dashboard:
    """Pages on what the store and its log hold: mount it in any host, apart from the receiver.

    `authorize` says who may come in: `basic(user, password)` does, or a function of the
    host's own. Below a mount that tells where it is, as every host's does, leave out
    `mount_path`, as for a receiver. `parse` is that of the receiver's provider. With
    `keep_bodies=False` the log does not have who changed something by hand. Figures are counted
    in threads of its own, from the first time that they are asked for, as long as somebody looks
    at them. A page waits about ten seconds for the database at the most; below WSGI and in
    Django, whose connections have the project's own limits, in a thread of the host's.

    Raises `ConfigurationError` without `authorize`: a dashboard is never open by default.
    """

    def __init__(
        self,
        store: Store,
        *,
        authorize: Authorize | None = None,
        mount_path: str = "",
        parse: Parse = postmark.parse,
        keep_bodies: bool = True,
    ) -> None:
        if not callable(authorize):
            raise ConfigurationError(
                "The dashboard is never open by default: say who may come in, "
                "authorize=basic(user, password), for example."
            )
        self._authorize = authorize
        self._mount = "/".join(["", *filter(None, mount_path.split("/"))])
        self._site = Site(store, Statistics(store), parse, keep_bodies=keep_bodies)

    def admit(self, head: RequestHead) -> Response | None:
        """Refuse who may not come in, before anything else is looked at."""
        visitor = self._visitor(head)
        if not isinstance(visitor, str):
            return visitor
        head.context[self] = visitor
        return None

    def __call__(self, request: Request) -> Response:
        """Answer a request; call `authorize` only if `admit` has not done so for the same head."""
        visitor = request.head.context.pop(self, None) or self._visitor(request.head)
        return self.answer(request, visitor) if isinstance(visitor, str) else visitor

    @limited_to(PATIENCE)
    def answer(
        self, request: Request, user: str, *, may: Collection[str] = ACTIONS.keys()
    ) -> Response:
        """Answer a request of a user whom the host itself let in; `may` names their `ACTIONS`."""
        try:
            answer = self._answer(request, user, may)
        except Mistake as mistake:
            answer = _error(mistake.status, str(mistake))
        except StoreError as error:
            answer = _error(503, f"The database cannot be asked just now: {error}")
        except Exception as error:
            id_ = request.head.request_id
            log.exception("The dashboard failed: request %s.", id_, extra={"request_id": id_})
            answer = _error(500, f"This page failed: {type(error).__name__}. The log tells more.")
        return _secured(answer)

    def close(self, timeout: float | None = None) -> None:
        """Count no more; wait `timeout` seconds for each thread that does."""
        self._site.figures.close(timeout)

    def _visitor(self, head: RequestHead) -> str | Response:
        try:
            visitor = self._authorize(head)
        except Exception:
            log.exception(
                "The dashboard could not tell who may come in: request %s.",
                head.request_id,
                extra={"request_id": head.request_id},
            )
            return _secured(plain(500, "Nobody can be let in just now."))
        match visitor:
            case Response():
                return _secured(visitor)
            case False | "":
                return _secured(plain(403, "The dashboard is not open to you."))
            case True:
                return "somebody"
            case str():
                return visitor
            case _:
                # A function that is async, for one, would have to be waited for.
                log.error(
                    "The dashboard's authorize returned %s: let it return True or a name, False, "
                    "or a Response. Request %s.",
                    type(visitor).__name__,
                    head.request_id,
                    extra={"request_id": head.request_id},
                )
                return _secured(plain(500, "Nobody can be let in just now."))

    def _answer(self, request: Request, user: str, may: Collection[str]) -> Response:
        head = request.head
        place = _place(head, self._mount)
        if place == "":
            return _redirect(f"./{quote(head.path.rpartition('/')[2])}/")
        name = place.strip("/") if place else None
        if name is not None and name.startswith("static/"):
            return _static(name.removeprefix("static/"))
        if name not in PAGES:
            raise Mistake(404, "There is no such page.")
        match head.method:
            case "GET" | "HEAD":
                return self._show(name, head, user, may=name in may)
            case "POST" if name in may:
                return self._act(name, request, user)
            case "POST" if name in ACTIONS:
                raise Mistake(403, "You may look at this, but not change it.")
            case _:
                allow = "GET, HEAD, POST" if name in may else "GET, HEAD"
                return _error(405, "That cannot be done here.", {"Allow": allow})

    def _show(self, name: str, head: RequestHead, user: str, *, may: bool) -> Response:
        kept = token(head)
        given = kept or new_token()
        drawn = PAGES[name](self._site, head.query)
        response = draw(drawn, user=user, token=given, place=name, may=may)
        if kept is not None:
            return response
        # Without a path it counts for what lies beside this page: the mount, whatever it is.
        cookie = f"{COOKIE}={given}; HttpOnly; SameSite=Strict{'; Secure' * head.secure}"
        return replace(response, headers={**response.headers, "Set-Cookie": cookie})

    def _act(self, name: str, request: Request, user: str) -> Response:
        text = request.body.decode("utf-8", "replace")
        form = fields(text, ("token", "action", "reason", "email"))
        if not is_ours(request.head, form.get("token", "")):
            raise Mistake(403, "This form is too old, or not ours: load its page anew.")
        return _redirect(ACTIONS[name](self._site, request.head, form, user))


def _place(head: RequestHead, mount: str) -> str | None:
    """Return the rest of the path below the mount, None where it is another's.

    A host behind a proxy may name a root of which only the end begins the path
    (FastAPI's `root_path`), and one that has taken its mount off may still name it.
    """
    parts = [] if mount else head.root.rstrip("/").split("/")[1:]
    ends = ("/" + "/".join(parts[n:]) for n in range(len(parts)))
    for prefix in [mount] if mount else ends:
        if f"{head.path}/".startswith(f"{prefix}/"):
            return head.path.removeprefix(prefix)
    return None if mount else head.path


@cache
def _static(name: str) -> Response:
    if name not in _STATIC:
        raise Mistake(404, "There is no such file.")
    content = files("hookrow.dashboard").joinpath("static", name).read_bytes()
    return Response(200, content, {"Content-Type": _STATIC[name], **_KEPT})


def _error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    drawn = Drawn("error.html", {"title": "This did not work", "sentence": sentence}, status)
    response = draw(drawn, user="", place="error")
    return replace(response, headers={**response.headers, **(headers or {})})


def _redirect(to: str) -> Response:
    return Response(303, b"", {"Location": to})


def _secured(response: Response) -> Response:
    headers: Mapping[str, str] = {**SECURITY, **response.headers}
    return replace(response, headers=headers)
