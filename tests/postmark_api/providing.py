"""Support for the tests of Postmark's API: a stand-in, and a hookrow to which it posts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import count
from typing import Any, TypeVar

import pytest

from engines import MEMORY
from hookrow import Postmark, Receiver
from hookrow._core.optional import ALWAYS
from hookrow._diagnostics.probe import accepts
from hookrow._postmark_api import rotate
from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.register import triggers_of
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from stand_in import PostmarkStandIn
from wire import ENDPOINT, SECRET

Home = TypeVar("Home")
"""The state of the provider and of hookrow."""


TRIGGERS = triggers_of(ALWAYS)
"""The triggers of the record types that hookrow records for every mapping."""


class Killed(BaseException):
    """The process was killed."""


def client(api: PostmarkStandIn, **options: Any) -> PostmarkAPI:  # noqa: ANN401 - of the client
    """Return a client of a stand-in, which never sleeps."""
    return PostmarkAPI(api.token, api.address, **({"sleep": lambda _: None} | options))


@contextmanager
def endpoint(
    *secrets: str, store: SQLStore | None = None, acknowledge_tests: bool = True
) -> Iterator[str]:
    """Serve a receiver on a loopback port; return the URL for webhooks.

    Without a store, it records in a new database in memory.
    """
    postmark = Postmark(*(secrets or (SECRET,)))
    with closing(SQLStore(MEMORY)) as own:
        receiver = Receiver(postmark, store or own, acknowledge_tests=acknowledge_tests)
        with closing(receiver), loopback(WSGI(receiver)) as port:
            yield f"http://127.0.0.1:{port}{ENDPOINT}"


def writes(api: PostmarkStandIn) -> Sequence[str]:
    """Return the requests that were not GETs."""
    return [f"{each.method} {each.path}" for each in api.requests if each.method != "GET"]


def kill_at_each_request(
    start: Callable[[], AbstractContextManager[Home]],
    run: Callable[[Home], object],
    describe: Callable[[Home], object],
) -> int:
    """Kill a run at each of its requests and repeat it; the state must be as without the kill.

    A request is one to the provider or a probe of an instance; the kill is before or after it.
    `start` returns the state before a run. Returns the number of requests of a run.
    """
    with start() as home:
        run(home)
        expected = describe(home)
    for after in (False, True):
        for number in count(1):
            with start() as home:
                if not _is_killed(partial(run, home), partial(describe, home), number, after=after):
                    break
                run(home)
                assert describe(home) == expected, (number, after)
    return number - 1


def _is_killed(
    run: Callable[[], object], describe: Callable[[], object], number: int, *, after: bool
) -> bool:
    """Kill a run at a request; return False if it has fewer requests.

    The kill is an exception that nothing handles, and no `finally` may change the state, because
    none would run in a process that is killed.
    """
    left = number
    found: object = None

    def kill_at(function: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            nonlocal left, found
            left -= 1
            result = function(*arguments, **options) if left or after else None
            if left == 0:
                found = describe()
                raise Killed
            return result

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostmarkAPI, "_send", kill_at(PostmarkAPI._send))
        patch.setattr(rotate, "accepts", kill_at(accepts))
        try:
            run()
        except Killed:
            assert describe() == found
            return True
    return False
