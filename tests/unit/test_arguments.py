"""Arguments of the wrong type: each is a sentence with the right line, at construction."""

import asyncio
import math
import re
from collections.abc import Callable, Generator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock, create_autospec

import pytest
from fastapi import FastAPI
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry
from receiving import people, receive
from sqlalchemy import MetaData, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from hookrow import ConfigurationError, Postmark, Receiver, Role, Schema, testing
from hookrow._arguments import check_function, name_of
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, basic
from hookrow.fastapi import router
from hookrow.flask import blueprint
from hookrow.metrics import Metrics, MetricsEndpoint
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import attach
from hookrow.tracing import Tracing
from hookrow.wsgi import WSGI
from wire import SECRET

NUMBER = 123456789  # a secret that is written as a number
URL = f"postgresql://ada:{SECRET}@host/mail"


class Base(DeclarativeBase):
    """The base of a host's models."""


class Person(Base):
    """A model of a host."""

    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str]


ENGINE = create_engine("sqlite://")
RECEIVER = receive(people())
provider, store = Postmark(SECRET), SQLStore("sqlite://")
dashboard = partial(Dashboard, store)
nothing: Any = None
AUTHORIZE = basic("ada", "a long password")

NOT_A_STORE = 'write SQLStore("postgresql://user@host/database") or SQLStore(engine).'
NOT_A_PROVIDER = "write Receiver(Postmark(secret), store)."
NOT_A_SCHEMA = 'write SQLStore(url, Schema(subscribers=Role("people"), ...)).'


async def async_authorize(_: object) -> str:
    return "ada"


def calling(function: Any, *arguments: Any, **options: Any) -> Callable[[], object]:  # noqa: ANN401 - of any type
    """Return a function that makes a call, which type checkers would reject."""
    return partial(function, *arguments, **options)


def with_(**options: object) -> Callable[[], object]:
    """Return a function that builds a receiver with these options."""
    return lambda: receive(people(), **options)


Case = tuple[Callable[[], object], str]

RECEIVERS: list[Case] = [
    (calling(Receiver, provider, URL), f"must be an SQLStore, not str: {NOT_A_STORE}"),
    (calling(Receiver, provider, ENGINE), f"not Engine: {NOT_A_STORE}"),
    (calling(Receiver, provider, ENGINE.url), f"not URL: {NOT_A_STORE}"),
    (calling(Receiver, provider, Path("x.db")), f"not PosixPath: {NOT_A_STORE}"),
    (calling(Receiver, provider, None), f"not None: {NOT_A_STORE}"),
    (calling(Receiver, provider, SQLStore), f"not the class SQLStore: {NOT_A_STORE}"),
    (calling(Receiver, provider, Session(ENGINE)), f"not Session: {NOT_A_STORE}"),
    (calling(Receiver, Postmark, store), f"not the class Postmark: {NOT_A_PROVIDER}"),
    (calling(Receiver, SECRET, store), f"not str: {NOT_A_PROVIDER}"),
    (calling(Receiver, store, provider), f"not SQLStore: {NOT_A_PROVIDER}"),
    (with_(mount_path=None), 'mount_path must be a string, not None: write mount_path="/mail".'),
    (with_(mount_path=Path("/mail")), "mount_path must be a string, not PosixPath"),
    (with_(group="5"), "group must be an integer of at least 1, not '5'."),
    (with_(backlog=True), "backlog must be an integer of at least 1, not True."),
    (with_(deadline=math.inf), "deadline must be a number of seconds greater than 0 and at most"),
    (with_(sweep="false"), "sweep must be True or False, not str."),
    (with_(keep_bodies=None), "keep_bodies must be True or False, not None."),
    (with_(acknowledge_tests="1"), "acknowledge_tests must be True or False, not str."),
    (with_(acknowledge_parked=1), "acknowledge_parked must be True or False, not 1."),
    (with_(spool=True), 'spool must be the path of a file, not True: write spool="/var/lib/'),
    (with_(spool=""), "spool must be the path of a file, not str"),
    (with_(spool=b"spool.db"), "spool must be the path of a file, not bytes"),
    (
        with_(spool=Path(":memory:")),
        "keeps notifications in a file, not in memory or at a URL",
    ),
    (with_(spool="sqlite://"), 'in a file, not in memory or at a URL: write spool="/var/lib/'),
    (with_(clock=datetime(2026, 3, 5, tzinfo=UTC)), "clock must be a function, not datetime"),
    (with_(clock=lambda _: datetime.now(UTC)), "clock (<lambda>) does not accept the arguments"),
    (with_(clock=lambda: 5), "The result of clock() must be a datetime with a time zone, not 5"),
    (with_(clock=lambda: datetime(2026, 3, 5)), "a datetime with a time zone, not datetime: "),  # noqa: DTZ001 - without one
    (calling(RECEIVER.retry_now, ["m-1"]), "not list: write receiver.retry_now(*message_ids)."),
]

PROVIDERS: list[Case] = [
    (calling(Postmark, SECRET.encode()), "not bytes: write Postmark(new_secret, old_secret)."),
    (calling(Postmark, [SECRET]), "A secret must be a string, not list"),
    (calling(Postmark, NUMBER), "A secret must be a string, not int"),
    (calling(Postmark, SECRET, None), "The webhook secret is missing or empty"),
    (calling(Resend, [SECRET]), "not list: write Resend(new_secret, old_secret)."),
    (calling(Resend, "whsec_YWJj", clock=5), "clock must be a function, not 5: write def clock()."),
]

SCHEMAS: list[Case] = [
    (calling(Role, Person), "name of a table, not the class Person: write Role.of(Person)."),
    (calling(Role, Person.__table__), 'not Table: write Role("people").'),
    (calling(Role, None), "The table of a role must be the name of a table, not None"),
    (calling(Role, "people", "address"), '`columns` of a role must be a dict, not str: write {"em'),
    (
        calling(Role, "people", {"email": Person.address}),
        'name of a column, or None, not InstrumentedAttribute: write {"email": "address"}.',
    ),
    (calling(Role, "people", {Person.address: "email"}), "A key in `columns` of a role must be"),
    (calling(Role, "people", where="deleted_at"), "`where` of a role must be a dict, not str"),
    (
        calling(Schema, subscribers=Person),
        "must be a Role, not the class Person: write subscribers=Role.of(Person).",
    ),
    (calling(Schema, dispatches={"table": "sends"}), "'dispatches' must be a Role, not dict"),
    (calling(Schema, log=False), "must be the name of a table, or None, not False: write log=None"),
    (calling(Schema, record="click"), 'not str: write record=("click", "bounce").'),
    (calling(Schema, record=[["click"]]), "Each item of record must be a string, not list"),
    (calling(Schema, reasons=["HardBounce"]), "reasons must be a dict, not list"),
]

STORES: list[Case] = [
    (calling(SQLStore, URL, {"subscribers": "people"}), f"not dict: {NOT_A_SCHEMA}"),
    (calling(SQLStore, URL, None), f"not None: {NOT_A_SCHEMA}"),
    (calling(SQLStore, URL, Role("people")), f"not Role: {NOT_A_SCHEMA}"),
    (calling(SQLStore, URL, verify="yes"), "verify must be True or False, not str."),
    (
        calling(SQLStore, None),
        f"A store takes a database URL or an sqlalchemy.Engine, not None: {NOT_A_STORE}",
    ),
    (calling(SQLStore, sessionmaker(ENGINE)), f"not sessionmaker: {NOT_A_STORE}"),
    (calling(SQLStore, type(ENGINE)), f"not the class Engine: {NOT_A_STORE}"),
    (calling(SQLStore, Path("/srv/x.db")), 'PosixPath: write SQLStore("sqlite:////srv/x.db").'),
    (
        calling(attach, Base),
        "a sqlalchemy.MetaData, not the class Base: write attach(Base.metadata).",
    ),
    (calling(attach, ENGINE), "not Engine: write attach(metadata)."),
    (calling(attach, MetaData(), {}), "The schema of attach() must be a Schema, not dict"),
]

HOSTS: list[Case] = [
    *[
        (calling(mount, wrong), f"The argument of {mount.__name__}() must be a receiver")
        for mount in (ASGI, WSGI, router, blueprint)
        for wrong in (None, Receiver, provider, ASGI(RECEIVER))
    ],
    (calling(ASGI, FastAPI()), "not FastAPI: write ASGI(receiver)."),
    (calling(Dashboard, URL, authorize=AUTHORIZE), f"not str: {NOT_A_STORE}"),
    (calling(Dashboard, RECEIVER, authorize=AUTHORIZE), "not Receiver: write receiver.store."),
    (
        calling(dashboard, authorize=("ada", "x")),
        "authorize must be a function, not tuple: write def",
    ),
    (calling(dashboard, authorize=basic), "authorize (basic) does not accept the arguments"),
    (calling(dashboard, authorize=async_authorize), "authorize is an async function"),
    (calling(dashboard, authorize=AUTHORIZE, providers="x"), "not str: write providers=rec"),
    (
        calling(dashboard, authorize=AUTHORIZE, provider_status="x"),
        "provider_status must be a func",
    ),
    (calling(dashboard, authorize=AUTHORIZE, keep_bodies=""), "keep_bodies must be True or False"),
    (calling(basic, "ada", b"x"), "The password of the dashboard must be a string, not bytes: wr"),
    (calling(basic, "ada", NUMBER), "The password of the dashboard must be a string, not int"),
]

OTHERS: list[Case] = [
    (calling(Metrics, "x"), "must be a CollectorRegistry, not str: write Metrics(registry)."),
    (calling(Metrics, CollectorRegistry), "not the class CollectorRegistry"),
    (calling(MetricsEndpoint, None), "not None: write MetricsEndpoint(registry)."),
    (calling(Tracing, TracerProvider), "not the class TracerProvider: write Tracing(tracer_provi"),
    (
        calling(testing.post, ASGI(RECEIVER), {}),
        "post() cannot post to ASGI: pass a URL or a receiver",
    ),
    (calling(testing.post, RECEIVER, {}, secret=NUMBER), "The secret must be a string, not int"),
    (calling(testing.post, RECEIVER, {}, timeout="5"), "timeout must be a number of seconds"),
    (calling(testing.delivery, "a@b.c", "m", at="2026"), "not str: write at=datetime.now(UTC)."),
    (calling(testing.inbound, "a@b.c", "m", at="2026"), "at must be a datetime, not str"),
    (calling(testing.send_test, at=None), "at must be a datetime, not None"),
    (
        calling(ExitStack().enter_context, testing.open_receiver(nothing)),
        f"not None: {NOT_A_STORE}",
    ),
]


@pytest.mark.parametrize(
    ("call", "message"), [*RECEIVERS, *PROVIDERS, *SCHEMAS, *STORES, *HOSTS, *OTHERS]
)
def test_a_wrong_type(call: Callable[[], object], message: str) -> None:
    """The sentence quotes no secret and no URL, which may contain a password."""
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        call()
    assert SECRET not in str(caught.value)
    assert str(NUMBER) not in str(caught.value)


class Duck:
    """A host's own object, which has the methods but not the base class."""

    def __init__(self, of: object) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of any attribute
        return getattr(self._of, name)

    def __call__(self, *arguments: object) -> object:
        call: Callable[..., object] = self._of  # type: ignore[assignment] # it is callable
        return call(*arguments)


def test_objects_with_the_methods_are_accepted() -> None:
    """Handlers and observers need no base class, and functions may be any callables."""
    duck: Any = Duck
    receiver = Receiver(provider, store, observer=duck(Tracing()), on_recorded=duck(print))
    WSGI(duck(receiver))
    Dashboard(store, authorize=duck(AUTHORIZE), providers=duck(Postmark))
    check_function("hook", print, "arrival", "outcome")
    check_function("hook", dict.get, "arrival", "outcome")
    check_function("hook", type("", (), {"__call__": lambda *_: None})(), "arrival", "outcome")


def test_a_store_needs_the_class() -> None:
    """An object that only has the methods of a store is refused."""
    duck = Duck(store)
    for call in (calling(Receiver, provider, duck), calling(Dashboard, duck, authorize=AUTHORIZE)):
        with pytest.raises(ConfigurationError, match="must be an SQLStore, not Duck: write SQLS"):
            call()


def example(arrival: object, outcome: object) -> None:
    """Do nothing: mocks have the parameters of this function."""


class Unreadable:
    """A callable whose signature and name raise exceptions when they are read."""

    def __getattribute__(self, name: str) -> object:
        if name in {"__signature__", "__qualname__"}:
            raise ValueError(SECRET)
        return super().__getattribute__(name)

    def __call__(self, *_: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize("mock", [Mock, MagicMock, AsyncMock])
def test_mocks_are_accepted_as_functions(mock: type[Mock]) -> None:
    """A mock of a function has all the flags of its code, such as that of a generator."""
    for each in (mock(), mock(spec=example), mock(wraps=example), create_autospec(example)):
        check_function("hook", each, "arrival", "outcome")
    Dashboard(store, authorize=mock(spec=AUTHORIZE))
    receive(people(), on_recorded=[mock(spec=example)]).close()


def test_a_callable_with_attributes_that_raise_is_accepted() -> None:
    """Its parameters are unknown, and its name is that of its type."""
    check_function("hook", Unreadable(), "arrival", "outcome")
    assert name_of(Unreadable()) == "Unreadable"


def test_generators_are_rejected_in_each_form() -> None:
    class Service:
        def generate(self, *_: object) -> Generator[None]:
            yield

    for each in (
        Service().generate,
        partial(Service.generate, Service()),
        partial(Service().generate),
    ):
        with pytest.raises(ConfigurationError, match="is a generator function"):
            check_function("hook", each, "arrival", "outcome")


# -- a handler in place of an application ----------------------------------------------


class _Django:
    __module__ = "django.core.handlers.wsgi"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (({"type": "http"}, None, None), 'app.mount("/mail", ASGI({name})), with `from'),
        (({"type": "websocket"},), 'app.mount("/mail", ASGI({name})), with `from'),
        (({"REQUEST_METHOD": "GET"}, None), "WSGI({name}), with `from hookrow.wsgi"),
        ((_Django(),), 'path("mail/", include("hookrow.django.{module}"))'),
        (("a request of another framework",), "hookrow.asgi.ASGI({name}) or hookrow.wsgi.WSGI"),
    ],
)
def test_a_handler_that_is_called_as_an_application(arguments: tuple[Any, ...], line: str) -> None:
    """The exception of each request names the line that mounts the handler."""
    handlers: list[tuple[Any, str, str]] = [
        (RECEIVER, "receiver", "urls"),
        (dashboard(authorize=AUTHORIZE), "dashboard", "dashboard"),
        (MetricsEndpoint(CollectorRegistry()), "endpoint", "endpoint"),
    ]
    for handler, name, module in handlers:
        text = re.escape(line.format(name=name, module=module))
        with pytest.raises(ConfigurationError, match=rf"is not an application .*: write {text}"):
            handler(*arguments)


@pytest.mark.parametrize("in_two_calls", [False, True])
def test_a_server_does_not_start_with_a_handler(*, in_two_calls: bool) -> None:
    """ASGI's lifespan: the start fails with the right line, in the calls of ASGI 2 and 3."""
    sent: list[dict[str, str]] = []
    handler: Any = RECEIVER

    async def receive_start() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, str]) -> None:
        sent.append(message)

    async def start() -> None:
        scope = {"type": "lifespan"}
        if in_two_calls:
            await handler(scope)(receive_start, send)
        else:
            await handler(scope, receive_start, send)

    asyncio.run(start())
    [message] = sent
    assert message["type"] == "lifespan.startup.failed"
    assert "write app = ASGI(receiver), with `from hookrow.asgi import ASGI`" in message["message"]


def test_an_application_for_wsgi_in_a_host_for_asgi() -> None:
    application: Any = WSGI(RECEIVER)
    with pytest.raises(
        ConfigurationError, match=r"mount ASGI\(receiver\), with `from hookrow.asgi"
    ):
        application({"type": "http"}, None, None)
