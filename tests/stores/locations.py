"""How to open a home in each place where a store's rows can be."""

from collections.abc import Callable

from django_home import DjangoHome
from fitted import FITTED, FittedHome
from homes import Home, MemoryHome, SQLHome

from hookrow import Schema


def open_home(place: str, schema: Schema, new_database: Callable[[str], str]) -> Home:
    """Open a home in memory or in a new database: "sqlite", "lent-postgres", "django-postgres".

    The store uses its own connections, an engine that a host supplies (`lent`), or Django.
    """
    if place == "memory":
        return MemoryHome(schema)
    through, _, database = place.rpartition("-")
    url = new_database(database)
    if through == "django":
        return DjangoHome(url, schema)
    if schema is FITTED:
        return FittedHome(url, lent=through == "lent")
    return SQLHome(url, schema, lent=through == "lent")
