"""The law: a group has exactly the same result as its members one by one, in order of arrival.

It holds of the rules, on a model, and on every store, which has the result of the model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import chain, cycle, product
from typing import Any, TypeAlias

import pytest
from contract import ADA, NOON
from django_home import (
    BARE,
    FLAGGED_MODELS,
    FORGETFUL_MODELS,
    LEAN,
    MODELS_OF_TENANTS,
    ONLY_PERSONS,
    TOUCHED_MODELS,
)
from fitted import FITTED
from homes import (
    DATED_FLAGS,
    EVERY_RECORD,
    FLAGGED,
    FORGETFUL,
    OURS,
    PEOPLE,
    RECORDING,
    SPARSE,
    SUPPRESSION,
    TOUCHED,
    UNDATED,
    Home,
    Rows,
    as_flags,
    columns_of,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from law_model import Model
from locations import open_home
from log_contract import keep, timeless, without_clock
from tenanted import OWNED, TENANTED, tenants_of

from copying import replace
from crm.schema import CRM
from databases import IN_MEMORY, MARIADB, POSTGRESQL, places
from engines import MEMORY
from hookrow import (
    Arrival,
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Refused,
    Schema,
    Suppressed,
)
from hookrow._core.log_entry import log_entries
from hookrow._core.notification import DispatchEvent, Key, Notification, Source
from hookrow._core.rules import decide, lookup_keys
from hookrow._core.schema import TOUCH
from hookrow._receiver.clock import LEAST_EVENTS, Clock
from hookrow._receiver.recorder import record
from hookrow.stores._log import START, Origin, RetryCursor
from hookrow.stores.sql import SQLStore
from times import DAY, SECOND

pytestmark = pytest.mark.unmeasured

Group: TypeAlias = list[Arrival]
Effects: TypeAlias = tuple[Notification, ...]
World: TypeAlias = dict[str, list[dict[str, Any]]]
Results: TypeAlias = tuple[list[Outcome], Rows, list[dict[str, Any]]]

RULES = 150
"""How many groups are tried on the model."""

DATABASES = (IN_MEMORY, POSTGRESQL.name, MARIADB.name)
"""One place on each kind of database: SQLite in memory gets the same statements as in a file."""

EXAMPLES = {
    IN_MEMORY: 40,
    **dict.fromkeys(DATABASES[1:], 20),
    **dict.fromkeys(places("django"), 15),
}
"""How many groups are tried in each place: a database takes far longer than a dict."""

SCHEMAS = {
    "dated": OURS,
    "beside the log": UNDATED,
    "undated": FORGETFUL,
    "sparse": SPARSE,
    "people": PEOPLE,
    "fitted": FITTED,
    "recording": RECORDING,
    "tenants": TENANTED,
    "tenants of owners": OWNED,
}
MODELS = {
    "dated": CRM,
    "beside the log": BARE,
    "undated": FORGETFUL_MODELS,
    "sparse": LEAN,
    "people": ONLY_PERSONS,
    "recording": EVERY_RECORD,
    "tenants": MODELS_OF_TENANTS,
}
"""The same for Django, in a host's models."""

IN_PLACES = [
    *product(DATABASES, SCHEMAS),
    *product(places("django"), ["dated"]),
    *zip(cycle(places("django")), (name for name in MODELS if name != "dated"), strict=False),
]
"""Every schema on each kind of database. Django sends the same statements: it has one schema on
all of them, and each of the others on one."""

# Few values, so that several notifications concern one row and one time.
BEA = "bea@example.com"
RECIPIENTS = [ADA, ADA, "ADA@example.com", BEA, BEA, "nobody@example.com", None]
MESSAGES = ["m-ada", "m-ada", "m-ada-2", "m-bea", "m-bea", "m-alone", "m-twin", "m-nowhere", None]
REASONS = ["HardBounce", "SpamComplaint"]

TIMES = [NOON + number * SECOND for number in range(4)]
MAYBE = [None, *TIMES]


def _about(
    recipients: Sequence[str | None], messages: Sequence[str | None]
) -> list[st.SearchStrategy[Notification]]:
    """Return a strategy for each kind of notification about these.

    Each draws once, from a list of them all: a draw takes longer than recording.
    """
    pairs = [*product(recipients, messages)]
    return [
        st.sampled_from([Delivered(*pair, at) for pair in pairs for at in TIMES]),
        st.sampled_from([Opened(*pair, at) for pair in pairs for at in TIMES]),
        st.sampled_from(
            [Suppressed(*pair, at, reason) for pair in pairs for at in MAYBE for reason in REASONS]
        ),
        st.sampled_from([Reactivated(*pair, at) for pair in pairs for at in MAYBE]),
    ]


# Half are about the same rows.
notifications = st.one_of(*_about([ADA], ["m-ada"]), *_about(RECIPIENTS, MESSAGES))


def _optional(
    recipients: Sequence[str | None], messages: Sequence[str | None]
) -> st.SearchStrategy[Notification]:
    """Return a strategy for the kinds that only some schemas record, as in `_about`."""
    pairs = [*product(recipients, messages)]
    return st.sampled_from(
        [kind(*pair, at, *more) for kind, *more in OPTIONAL_KINDS for pair in pairs for at in TIMES]
    )


OPTIONAL_KINDS: list[tuple[Any, ...]] = [
    *((Clicked,), (Complained,)),
    *((Bounced, "HardBounce"), (Bounced, "SoftBounce"), (Bounced, None)),
]
recorded = st.one_of(
    *(_optional([ADA], ["m-ada"]), _optional(RECIPIENTS, MESSAGES)),
    *_about([ADA], ["m-ada"]),
)
MORE_EFFECTS: list[Effects] = [
    *((), ()),
    (Delivered(None, None, NOON),),
    (Suppressed(None, None, None, "HardBounce"),),
    (Delivered(None, None, NOON), Suppressed(None, None, None, "HardBounce")),
]
times = st.sampled_from(TIMES)
late = st.sampled_from([*product(TIMES, range(4), MAYBE, MAYBE)])


@st.composite
def _arrivals(draw: st.DrawFn, kinds: st.SearchStrategy[Notification]) -> Arrival:
    """Draw an arrival whose event has one effect, or several, or is not supported."""
    number = draw(st.sampled_from([1, 1, 1, 2, 3, 0]))
    notifications = tuple(draw(kinds) for _ in range(number))
    body = repr(notifications).encode()
    if draw(st.booleans()):
        return Arrival(notifications, body, draw(times))
    at, attempts, last, now = draw(late)
    return Arrival(
        notifications,
        body,
        at,
        Source.REPLAY,
        attempts=attempts,
        last_received_at=last,
        applied_at=now,
    )


@st.composite
def _effects(draw: st.DrawFn, kinds: st.SearchStrategy[Notification]) -> Effects:
    """Draw the notifications of an event, which are about the same recipient and message."""
    first = draw(kinds)
    return first, *(
        replace(each, recipient=first.recipient, message_id=first.message_id)
        for each in draw(st.sampled_from(MORE_EFFECTS))
    )


groups = st.lists(_arrivals(notifications), min_size=2, max_size=9)
groups_with_optional = st.lists(_arrivals(recorded), min_size=2, max_size=9)


def _at_noon(notification: Notification) -> Arrival:
    return Arrival((notification,), repr(notification).encode(), NOON)


ahead = st.sampled_from([Delivered(ADA, "m-ada", NOON + (3 + n) * DAY) for n in range(3)])
live_groups = st.builds(
    lambda first, rest: [*map(_at_noon, [*first, *rest])],
    st.lists(ahead, min_size=1, max_size=3),
    st.lists(st.one_of(ahead, *_about([ADA, BEA], ["m-ada", "m-bea"])), min_size=1, max_size=6),
)
"""Groups that arrive at noon, and begin with events that seem to come from the future."""
suppressions = st.one_of(
    st.just((None, None, None)),
    st.sampled_from([*product(TIMES, REASONS, MAYBE)]),
    st.sampled_from([*product([None], [None], TIMES)]),
)
delivery = st.sampled_from([*product(MAYBE, MAYBE)])
optional = st.sampled_from([*product(*[[None, *TIMES[1:3]]] * 4, [None, "HardBounce"])])


def _of_tenants(
    groups: st.SearchStrategy[Group], tenants: Mapping[str, Key]
) -> st.SearchStrategy[Group]:
    """Return a strategy for groups whose arrivals are those of several entries and tenants."""
    named = st.lists(st.sampled_from([*tenants.items()]), min_size=9, max_size=9)
    return st.builds(
        lambda group, entries: [
            replace(each, entry=entry, tenant=tenant)
            for each, (entry, tenant) in zip(group, entries, strict=False)
        ],
        groups,
        named,
    )


TWIN: Mapping[str, Sequence[Any]] = {
    "subscribers": [(3, ADA)],
    "subscriptions": [(1, 3)],
    "dispatches": [(5, "m-twin", 3, 1), (6, "m-ada-2", 3, 2)],
}
"""A person who has Ada's email, and a dispatch whose id is also that of one of Ada's."""


@st.composite
def worlds(draw: st.DrawFn, *, records: bool = False, twins: bool = False) -> World:
    """Draw rows in every state: two subscribers who share a list, and four dispatches.

    With `twins`, there is another subscriber with the email of one of them.
    """
    more = TWIN if twins else dict.fromkeys(TWIN, ())

    def suppression() -> dict[str, Any]:
        return dict(zip(SUPPRESSION, draw(suppressions), strict=True))

    return {
        "subscribers": [
            {"id": number, "email": email, **suppression()}
            for number, email in ((1, ADA), (2, BEA), *more["subscribers"])
        ],
        "subscriptions": [
            {"list_id": list_, "subscriber_id": subscriber, **suppression()}
            for list_, subscriber in ((1, 1), (1, 2), (2, 1), *more["subscriptions"])
        ],
        "dispatches": [
            {
                "id": number,
                "provider_message_id": message_id,
                "subscriber_id": subscriber,
                "list_id": list_,
                **dict(zip(("delivered_at", "opened_at"), draw(delivery), strict=True)),
                **(dict(zip(OPTIONAL, draw(optional), strict=True)) if records else {}),
                **suppression(),
            }
            for number, message_id, subscriber, list_ in (
                *((1, "m-ada", 1, 1), (2, "m-ada-2", 1, 2)),
                *((3, "m-bea", 2, 1), (4, "m-alone", 1, None)),
                *more["dispatches"],
            )
        ],
    }


@st.composite
def worlds_of_tenants(draw: st.DrawFn, tenants: Mapping[str, Key]) -> World:
    """Draw rows of several tenants, of which two have Ada's email and a dispatch of one message.

    Most rows belong to the tenant of their subscriber; some belong to another one, or to none.
    """
    world = draw(worlds(twins=True))
    world["dispatches"][4]["provider_message_id"] = "m-ada"
    of_rows = st.sampled_from([*tenants.values(), None])
    people = {row["id"]: draw(of_rows) for row in world["subscribers"]}
    for row in chain(*world.values()):
        row["tenant"] = people[row.get("subscriber_id", row.get("id"))]
    strays = st.tuples(st.sampled_from([*world["dispatches"], *world["subscriptions"]]), of_rows)
    for row, tenant in draw(st.lists(strays, max_size=2)):
        row["tenant"] = tenant
    return world


OPTIONAL = ("first_opened_at", "clicked_at", "complained_at", "bounced_at", "bounce_type")
SENT = {"provider_message_id": "m-ada", "subscriber_id": 1, "delivered_at": NOON + 3 * SECOND}
OF_BEA = {"provider_message_id": "m-bea", "subscriber_id": 2}
WORLD: World = {
    "subscribers": [{"id": 1, "email": ADA}, {"id": 2, "email": BEA}],
    "dispatches": [{"id": 1, **SENT}, {"id": 2, **OF_BEA}],
}
RARE = (
    [
        # A live change sets an earlier time, which a guarded one then finds.
        [
            Arrival((Delivered(ADA, "m-ada", NOON + SECOND),), b"{}", NOON),
            Arrival((Delivered(ADA, "m-ada", at),), b"{}", NOON, source=Source.REPLAY),
        ]
        for at in (NOON, NOON + 2 * SECOND)
    ]
    + [
        # Among equal times, the last to arrive wins.
        [
            Arrival((Suppressed(ADA, "m-ada", NOON, "HardBounce"),), b"{}", NOON),
            Arrival((Suppressed(ADA, "m-ada", at, "SpamComplaint"),), b"{}", NOON),
        ]
        for at in (NOON, NOON - SECOND)
    ]
    + [
        # An event suppresses its recipient even if its dispatch is missing, or another person's.
        [
            Arrival(
                (Delivered(ADA, id_, NOON), Suppressed(ADA, id_, NOON, "HardBounce")), b"1", NOON
            ),
            Arrival((Reactivated(ADA, id_, NOON), Opened(ADA, id_, NOON)), b"2", NOON),
        ]
        for id_ in ("m-bea", "m-nowhere")
    ]
)
"""Groups that are rarely drawn."""
RARE_OPTIONAL = [
    # Of bounces with equal times, the type of the last one stays; a later one stays as it is.
    [
        Arrival((Bounced(ADA, "m-ada", NOON + SECOND, "HardBounce"),), b"{}", NOON, source),
        Arrival((Bounced(ADA, "m-ada", at, "SoftBounce"),), b"{}", NOON, Source.REPLAY),
    ]
    for source in (Source.LIVE, Source.REPLAY)
    for at in (NOON, NOON + SECOND)
] + [
    # The earliest open is the first one, in any order.
    [
        Arrival((Opened(ADA, "m-ada", NOON + SECOND),), b"{}", NOON, source),
        Arrival((Opened(ADA, "m-ada", NOON),), b"{}", NOON),
        Arrival((Opened(ADA, "m-ada", NOON + 2 * SECOND),), b"{}", NOON),
    ]
    for source in (Source.LIVE, Source.REPLAY)
]


_DATED = {
    name: replace(role, columns={**role.columns, "suppression_changed_at": "changed"})
    for name, role in UNDATED.roles.items()
}


def _with_keys(home: Home, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with keys of the type that the tables have."""
    keys = {"id", "subscriber_id", "list_id"} & {name for name in row if row[name] is not None}
    return {**row, **{name: home.key(row[name]) for name in keys}}


def _fill(home: Home, world: World) -> None:
    home.fill(**{name: [_with_keys(home, row) for row in rows] for name, rows in world.items()})


def _results(
    home: Home, world: World, group: Group, *, size: int, checked: bool = False
) -> Results:
    """Record the group in parts of this size; return the outcomes, all rows, and the log."""
    _fill(home, world)
    outcomes: list[Outcome] = []
    for start in range(0, len(group), size):
        outcomes += record(home.store, group[start : start + size], checked=checked)
    return outcomes, home.rows(), timeless(home)


def _expected(schema: Schema, world: World, group: Group, *, size: int = 1) -> Results:
    """Return the results of the model."""
    model = Model(schema, world)
    outcomes: list[Outcome] = []
    for start in range(0, len(group), size):
        outcomes += model.record(group[start : start + size])
    return outcomes, model.rows(), without_clock(model.logged())


def _without_keys(results: Results) -> object:
    """Return the parts that are the same in tables whose keys have other types."""
    outcomes, tables, logged = results
    return (
        logged,
        [each.text if isinstance(each, Refused) else len(each.changes) for each in outcomes],
        {
            name: [
                {column: row[column] for column in row if not column.endswith("id")} for row in rows
            ]
            for name, rows in tables.items()
        },
    )


def test_dates_beside_the_log() -> None:
    """The result equals that of rows that store the date of their last change themselves."""
    homes = [Home(MEMORY, schema) for schema in (UNDATED, replace(UNDATED, **_DATED))]

    @settings(max_examples=EXAMPLES["memory"], deadline=None, database=None)
    @given(worlds(), groups, st.integers(1, 9))
    def claim(world: World, group: Group, size: int) -> None:
        for row in chain(*world.values()):
            row["suppression_changed_at"] = None
        results = [_results(home, world, group, size=size) for home in homes]
        for row in chain(*results[1][1].values()):
            row.pop("suppression_changed_at")
        assert results[0] == results[1]

    with closing(homes[0]), closing(homes[1]):
        claim()


@pytest.mark.parametrize("schema", [OURS, UNDATED, FORGETFUL], ids=["dated", "beside", "undated"])
def test_corrected_times(schema: Schema, hookrow_store: SQLStore) -> None:
    """The law holds if the times of arrival are corrected because the process's clock is slow.

    The correction begins with the second event of a group that is dated days ahead.
    """

    def results(world: World, group: Group, size: int) -> Results:
        clock = Clock(hookrow_store)
        clock.measure()
        ahead = [
            Delivered(f"{number}@x", "m", NOON + 3 * DAY) for number in range(LEAST_EVENTS - 2)
        ]
        clock.date([Arrival((each,), b"{}", NOON) for each in ahead])
        dated: Group = []
        for start in range(0, len(group), size):
            dated += clock.date(group[start : start + size])
        return _expected(schema, world, dated, size=size)

    @settings(max_examples=RULES, deadline=None, database=None)
    @given(worlds(twins=not schema.is_own), live_groups, st.integers(2, 9))
    def claim(world: World, group: Group, size: int) -> None:
        assert results(world, group, size) == results(world, group, 1)

    claim()


@pytest.mark.parametrize(
    ("place", "schema"),
    [
        (place, schema)
        for place in EXAMPLES
        for schema in ([FLAGGED_MODELS] if place.startswith("django-") else [FLAGGED, DATED_FLAGS])
    ],
)
def test_flags(place: str, schema: Schema, new_database: Callable[[str], str]) -> None:
    """A flag is true exactly if the time would be set, in groups, one by one, and after a replay.

    Reasons, outcomes and the log are the same as those of tables with times.
    """
    home = open_home(place, schema, new_database)
    records = "clicked_at" in schema.columns("dispatches")

    def flagged(results: Results) -> Results:
        outcomes, tables, logged = results
        as_flagged = {
            name: [{**as_flags(row, columns_of(home.schema, name)), TOUCH: None} for row in rows]
            for name, rows in tables.items()
        }
        return outcomes, as_flagged, logged

    def claim(world: World, group: Group, size: int, *, checked: bool) -> None:
        outcomes, tables, logged = _results(home, world, group, size=size, checked=checked)
        stored = {name: [{**row, TOUCH: None} for row in rows] for name, rows in tables.items()}
        expected = flagged(_expected(home.schema, world, group))
        assert _without_keys((outcomes, stored, logged)) == _without_keys(expected)

    with closing(home):
        _search(claim, schema, EXAMPLES[place], records=records)


@pytest.mark.parametrize("place", EXAMPLES)
def test_touch(place: str, new_database: Callable[[str], str]) -> None:
    """The time of a write is stored in the rows that it changes, and in no others.

    A repeated notification changes nothing, and neither does one that a guard refuses.
    """
    schema = TOUCHED_MODELS if place.startswith("django-") else TOUCHED
    home = open_home(place, schema, new_database)

    def claim(world: World, group: Group, size: int, *, checked: bool) -> None:
        for row in chain(*world.values()):
            row[TOUCH] = NOON
        _fill(home, world)
        for start in range(0, len(group), size):
            before, began = home.rows(), datetime.now(UTC)
            record(home.store, group[start : start + size], checked=checked)
            for name, rows in home.rows().items():
                for row, earlier in zip(rows, before[name], strict=True):
                    if TOUCH in row:
                        touched, touched_before = row.pop(TOUCH), earlier.pop(TOUCH)
                        is_kept = touched == touched_before
                        assert is_kept if row == earlier else touched >= began

    with closing(home):
        _search(claim, schema, EXAMPLES[place], records=False)


def _schemas(place: str) -> Mapping[str, Schema]:
    return MODELS if place.startswith("django-") else SCHEMAS


@pytest.fixture
def home(place: str, schema: str, new_database: Callable[[str], str]) -> Iterator[Home]:
    """Open one home for all groups."""
    with closing(open_home(place, _schemas(place)[schema], new_database)) as home:
        yield home


def _drawn(
    schema: Schema, tenants: Mapping[str, Key], *, records: bool
) -> tuple[st.SearchStrategy[World], st.SearchStrategy[Group], list[Group], World]:
    """Return the worlds and the groups of a schema, the groups that are rare, and their world.

    The `tenants` are named by entries of the receiver.
    """
    if not tenants:
        twins = not schema.is_own  # hookrow's own emails are unique
        rare = RARE + (RARE_OPTIONAL if records else [])
        drawn = groups_with_optional if records else groups
        return worlds(records=records, twins=twins), drawn, rare, WORLD
    entry, tenant = next(iter(tenants.items()))
    return (
        worlds_of_tenants(tenants),
        _of_tenants(groups, tenants),
        [[replace(each, entry=entry, tenant=tenant) for each in group] for group in RARE],
        {name: [{**row, "tenant": tenant} for row in rows] for name, rows in WORLD.items()},
    )


def _search(claim: Callable[..., None], schema: Schema, examples: int, *, records: bool) -> None:
    """Search for a counterexample to a claim about a world, a group, its parts and checks."""
    drawn_worlds, drawn, rare, world = _drawn(schema, tenants_of(schema), records=records)
    tried = given(
        world=drawn_worlds,
        group=drawn,
        size=st.integers(2, 9),
        checked=st.booleans(),
    )(claim)
    for group in rare:
        for checked in (False, True):
            tried = example(world=world, group=group, size=2, checked=checked)(tried)
    # How long an example takes depends on the database and the machine.
    settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )(tried)()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_law_of_the_rules(schema: str) -> None:
    """Outcomes, rows and log of the model do not depend on the grouping."""

    def claim(world: World, group: Group, size: int, **_: bool) -> None:
        one_by_one = _expected(SCHEMAS[schema], world, group)
        assert _expected(SCHEMAS[schema], world, group, size=size) == one_by_one

    _search(claim, SCHEMAS[schema], RULES, records=schema == "recording")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_events_with_several_effects(schema: str) -> None:
    """The effects of an event change the same rows as events with one effect each.

    Its outcome is the first refusal, if there is one: the first for which a retry may help.
    """

    def claim(world: World, group: Group, **_: object) -> None:
        together, rows, _log = _expected(SCHEMAS[schema], world, group)
        split = [[replace(each, notifications=(n,)) for n in each.notifications] for each in group]
        single, rows_of_single, _log = _expected(SCHEMAS[schema], world, [*chain(*split)])
        assert rows == rows_of_single
        rest = iter(single)
        for outcome, effects in zip(together, split, strict=True):
            outcomes = [next(rest) for _ in effects] or [Refusal.UNSUPPORTED.refused()]
            refused = [each for each in outcomes if isinstance(each, Refused)]
            if refused:
                first = min(refused, key=lambda each: each.refusal is Refusal.UNMAPPED)
                assert isinstance(outcome, Refused)
                assert (outcome.refusal, outcome.text) == (first.refusal, first.text)
            else:
                assert isinstance(outcome, Recorded)
            assert [*outcome.changes] == [*chain(*(each.changes for each in outcomes))]

    _search(claim, SCHEMAS[schema], RULES, records=schema == "recording")


@pytest.mark.parametrize(("place", "schema"), IN_PLACES)
def test_law(home: Home, place: str, schema: str) -> None:
    """Outcomes, rows and log do not depend on the grouping, on checks, or on the store."""

    def claim(world: World, group: Group, size: int, *, checked: bool) -> None:
        one_by_one = _results(home, world, group, size=1)
        assert _results(home, world, group, size=size, checked=checked) == one_by_one
        assert _without_keys(one_by_one) == _without_keys(_expected(home.schema, world, group))

    _search(claim, home.schema, EXAMPLES[place], records=schema == "recording")


@pytest.mark.parametrize(
    ("place", "schema"),
    [(place, name) for place, name in IN_PLACES if _schemas(place)[name].log is not None],
)
def test_hopeful(home: Home, schema: str) -> None:
    """Of the parked events, a sweep finds those of which something new would be recorded.

    One that was refused because its dispatch was missing has already changed its subscriber.
    """

    def claim(
        world: World, group: list[tuple[Effects, bool, tuple[str | None, Key | None]]]
    ) -> None:
        _fill(home, world)
        sent = [
            Arrival(effects, str(n).encode(), NOON, entry=entry, tenant=tenant)
            for n, (effects, _, (entry, tenant)) in enumerate(group)
        ]
        refusals = [
            Refusal.DISPATCH_NOT_FOUND
            if had_subscriber and any(isinstance(each, DispatchEvent) for each in effects)
            else Refusal.SUBSCRIBER_NOT_FOUND
            for effects, had_subscriber, _ in group
        ]
        keep(home, *log_entries(sent, [each.refused() for each in refusals], NOON))
        assert home.store.log is not None
        found: list[int] = []
        place: RetryCursor | None = START
        origins = [Origin(name, None) for name in (None, *tenants)]
        find = partial(home.store.log.hopeful, NOON + DAY, origins=origins, limit=2)
        while place is not None:
            ids, place = find(after=place, tenants=tenants)
            found += ids
        with home.store.reading() as reading:
            rows = reading.find(lookup_keys(sent))
        outcomes = [decide(each, rows) for each in sent]
        hopeful = {
            each.body.decode()
            for each, refusal, outcome in zip(sent, refusals, outcomes, strict=True)
            if isinstance(outcome, Recorded)
            or (outcome.changes and refusal is Refusal.SUBSCRIBER_NOT_FOUND)
        }
        assert {row["body"] for row in home.logged() if row["id"] in found} == hopeful
        assert len(found) == len(hopeful)

    # The search does not distinguish tenants that are equal to the database.
    tenants = {name: each for name, each in tenants_of(home.schema).items() if name != "upper"}
    records = schema == "recording"
    drawn_worlds, *_ = _drawn(home.schema, tenants, records=records)
    entries: list[tuple[str | None, Key | None]] = [*tenants.items()] or [(None, None)]
    effects = _effects(recorded if records else notifications)
    event = st.tuples(effects, st.booleans(), st.sampled_from(entries))
    tried = given(world=drawn_worlds, group=st.lists(event, min_size=2, max_size=9))(claim)
    settings(
        max_examples=20, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )(tried)()
