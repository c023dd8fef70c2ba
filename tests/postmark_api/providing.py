"""Support for the tests of Postmark's API: a stand-in, and a hookrow to which it posts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from hookrow import Postmark, Receiver
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.stores.memory import MemoryStore
from hookrow.testing.postmark_api import PostmarkStandIn
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import ENDPOINT, SECRET


class Killed(BaseException):
    """The process was killed."""


class Fragile(PostmarkAPI):
    """A client whose process is killed at its nth request, before or after it is sent."""

    def __init__(self, *arguments: Any, at: int, sent: bool, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self._left, self._sent = at, sent

    def _send(self, *arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as in the client
        self._left -= 1
        if not self._left and not self._sent:
            raise Killed
        found = super()._send(*arguments)
        if not self._left:
            raise Killed
        return found


def client(api: PostmarkStandIn, **options: Any) -> PostmarkAPI:  # noqa: ANN401 - of the client
    """Return a client of a stand-in, which never sleeps."""
    return PostmarkAPI(api.token, api.address, **({"sleep": lambda _: None} | options))


@contextmanager
def endpoint(store: MemoryStore, *secrets: str, acknowledge_tests: bool = True) -> Iterator[str]:
    """Serve a receiver on a loopback port; return the URL for webhooks."""
    postmark = Postmark(*(secrets or (SECRET,)))
    receiver = Receiver(postmark, store, acknowledge_tests=acknowledge_tests)
    with closing(receiver), loopback(WSGI(receiver)) as port:
        yield f"http://127.0.0.1:{port}{ENDPOINT}"


def writes(api: PostmarkStandIn) -> Sequence[str]:
    """Return the requests that were not GETs."""
    return [f"{each.method} {each.path}" for each in api.requests if each.method != "GET"]


def kill_at_each_request(
    run: Callable[[PostmarkAPI], object],
    start: Callable[[], PostmarkStandIn],
    describe: Callable[[PostmarkStandIn], object],
) -> int:
    """Kill a run at each of its requests and repeat it; the state must be as without the kill.

    Returns the number of requests of a run.
    """
    with start() as api:
        run(client(api))
        expected, count = describe(api), len(api.requests)
    for number in range(1, count + 1):
        for sent in (False, True):
            with start() as api:
                fragile = Fragile(api.token, api.address, at=number, sent=sent)
                try:
                    run(fragile)
                except Killed:
                    run(client(api))
                else:
                    raise AssertionError("the run was not killed")
                assert describe(api) == expected, (number, sent)
    return count
