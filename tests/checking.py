"""The results of `hookrow check` about a database, without its status."""

from collections.abc import Sequence
from contextlib import closing

from hookrow import Schema
from hookrow._diagnostics import CheckResult
from hookrow._diagnostics.check import check_database, check_rows
from hookrow._receiver.entries import POSTMARK, Parsers
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._urls import open_database


def check_at(url: str, schema: Schema, parsers: Parsers = POSTMARK) -> Sequence[CheckResult]:
    """Check the database at a URL and its tables."""
    with closing(open_database(url)) as database:
        return check_open(database, schema, parsers)


def check_open(
    database: Database, schema: Schema, parsers: Parsers = POSTMARK
) -> Sequence[CheckResult]:
    """Check a database and its tables."""
    results = [*check_database(database, schema, parsers.known)]
    return [*check_rows(results, database, schema, parsers)]
