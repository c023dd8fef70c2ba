"""An ordinary pair of tables, whose names differ from hookrow's and which lack optional columns."""

from databases import kind_of
from engines import run
from hookrow import Role, Schema

ORDINARY = Schema(
    subscribers=Role("people"), dispatches=Role("sends"), subscriptions=None, log=None
)
"""The mapping as a beginner writes it."""


def create_people(url: str) -> str:
    """Return the statement that creates the people."""
    types = kind_of(url).types
    return (
        f"CREATE TABLE people (id integer PRIMARY KEY, address {types['name']}, "
        f"suppressed_at {types['timestamp']})"
    )


def create_sends(url: str) -> str:
    """Return the statement that creates the messages that were sent to them."""
    types = kind_of(url).types
    return (
        f"CREATE TABLE sends (id integer PRIMARY KEY, postmark_id {types['name']}, "
        f"person_id integer, delivered_at {types['timestamp']}, opened_at {types['timestamp']})"
    )


def create_ordinary(url: str) -> None:
    """Create the tables."""
    run(url, create_people(url), create_sends(url))
