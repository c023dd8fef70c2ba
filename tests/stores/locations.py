"""How to open a home in each place where a store's rows can be, and fixtures that do so.

A module names its fixture and the places: `home = pytest.fixture(own_home, params=NAMES)`.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from contract import fill
from django_home import FLAGGED_MODELS, DjangoHome, FlaggedDjangoHome
from fitted import FITTED, FittedHome
from homes import DATED_FLAGS, FLAGGED, OURS, Flags, Home
from sqlalchemy import Engine
from tenanted import TenantedHome

from databases import NAMES, places
from engines import connect
from hookrow import Schema

PLACES = (*NAMES, *places("supplied"), *places("django"))
"""The store uses its own connections, an engine supplied by the host, or Django."""


def few_places(turn: int) -> tuple[str, ...]:
    """Return each database and, in turn, one with a supplied engine and one through Django.

    For long tests: all send the same statements, and `test_stores.py` proves in every place that
    values are converted to and from them.
    """
    others = (places(through)[turn % len(NAMES)] for through in ("supplied", "django"))
    return *NAMES, *others


ON_POSTGRES = pytest.mark.parametrize("home", ["postgres"], indirect=True)
ON_SQLITE = pytest.mark.parametrize("home", ["sqlite"], indirect=True)


def open_home(place: str, schema: Schema, new_database: Callable[[str], str]) -> Home:
    """Open a home in a new database.

    The place is one of `PLACES`, or "memory" for an SQLite database in memory.
    """
    through, _, database = place.rpartition("-")
    url = new_database(database)
    if through == "django":
        return (FlaggedDjangoHome if schema is FLAGGED_MODELS else DjangoHome)(url, schema)
    kind: type[Home] = TenantedHome if schema.has_tenants else Home
    if schema is FITTED:
        kind = FittedHome
    elif schema in (FLAGGED, DATED_FLAGS):
        kind = Flags
    return kind(url, schema, supplied=through == "supplied")


def own_home(request: pytest.FixtureRequest) -> Iterator[Home]:
    """Open hookrow's tables, empty, in the place of the fixture's parameter."""
    url = str(request.getfixturevalue(f"{request.param.rpartition('-')[2]}_url"))
    with closing(open_home(request.param, OURS, lambda _: url)) as home:
        yield home


def filled_home(request: pytest.FixtureRequest) -> Iterator[Home]:
    """Open hookrow's tables with a few rows."""
    for home in own_home(request):
        fill(home)
        yield home


def shared_home(
    request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> Iterator[Home]:
    """Open a home for several tests; the parameter is a place, or a place and a schema."""
    place, schema = request.param if isinstance(request.param, tuple) else (request.param, OURS)
    with closing(open_home(place, schema, new_database)) as home:
        yield home


def own_engine(database_url: str) -> Iterator[Engine]:
    """Connect as a host to a database with hookrow's tables."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


def empty_engine(empty_database_url: str) -> Iterator[Engine]:
    """Connect as a host to a database without tables."""
    engine = connect(empty_database_url)
    yield engine
    engine.dispose()
