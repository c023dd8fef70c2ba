"""The law: a group ends exactly as its members would have, one by one in order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import pytest
from contract import NOON, SECOND
from django_home import BARE, LEAN, DjangoHome
from fitted import FITTED, make_home
from homes import OURS, SPARSE, UNDATED, Home, MemoryHome, Rows
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from log_contract import timeless

from crm.schema import CRM
from hookrow import Arrival, Delivered, Opened, Outcome, Reactivated, Refused, Suppressed
from hookrow.notification import Notification
from hookrow.recording import record

Group: TypeAlias = list[Arrival]
World: TypeAlias = dict[str, list[dict[str, Any]]]

EXAMPLES = {
    "memory": 100,
    "sqlite": 25,
    "postgres": 25,
    "django-sqlite": 15,
    "django-postgres": 15,
}
"""How many groups are tried: in a database each takes far longer than in a dict."""

# Few values, so that they meet: one row, one time, twice.
ADA, BEA = "ada@example.com", "bea@example.com"
RECIPIENTS = [ADA, ADA, "ADA@example.com", BEA, BEA, "nobody@example.com", None]
MESSAGES = ["m-ada", "m-ada", "m-ada-2", "m-bea", "m-bea", "m-alone", "m-nowhere", None]
REASONS = ["HardBounce", "SpamComplaint"]

times = st.sampled_from([NOON + number * SECOND for number in range(4)])
maybe = st.one_of(st.none(), times)


def _notifications(
    recipients: Sequence[str | None], messages: Sequence[str | None]
) -> st.SearchStrategy[Notification]:
    who, what = st.sampled_from(recipients), st.sampled_from(messages)
    return st.one_of(
        st.builds(Delivered, who, what, times),
        st.builds(Opened, who, what, times),
        st.builds(Suppressed, who, what, maybe, st.sampled_from(REASONS)),
        st.builds(Reactivated, who, what, maybe),
    )


@st.composite
def _arrivals(draw: st.DrawFn) -> Arrival:
    """Draw an arrival. Half are about the same rows; now and then one holds nothing of use."""
    notification = draw(
        st.one_of(_notifications([ADA], ["m-ada"]), _notifications(RECIPIENTS, MESSAGES), st.none())
    )
    body = repr(notification).encode()
    if draw(st.booleans()):
        return Arrival(notification, body, draw(times))
    attempts, last = draw(st.integers(0, 3)), draw(maybe)
    return Arrival(
        notification, body, draw(times), live=False, attempts=attempts, last_received_at=last
    )


arrivals = _arrivals()
groups = st.lists(arrivals, min_size=2, max_size=9)
suppressions = st.one_of(
    st.just((None, None, None)),
    st.tuples(times, st.sampled_from(REASONS), maybe),
    st.tuples(st.none(), st.none(), times),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw rows in every state: two subscribers who share a list, and four dispatches."""

    def suppression() -> dict[str, Any]:
        columns = ("suppressed_at", "suppression_reason", "suppression_changed_at")
        return dict(zip(columns, draw(suppressions), strict=True))

    return {
        "subscribers": [
            {"id": number, "email": email, **suppression()}
            for number, email in ((1, "ada@example.com"), (2, "bea@example.com"))
        ],
        "subscriptions": [
            {"list_id": list_, "subscriber_id": subscriber, **suppression()}
            for list_, subscriber in ((1, 1), (1, 2), (2, 1))
        ],
        "dispatches": [
            {
                "id": number,
                "provider_message_id": message_id,
                "subscriber_id": subscriber,
                "list_id": list_,
                "delivered_at": draw(maybe),
                "opened_at": draw(maybe),
                **suppression(),
            }
            for number, message_id, subscriber, list_ in (
                *((1, "m-ada", 1, 1), (2, "m-ada-2", 1, 2)),
                *((3, "m-bea", 2, 1), (4, "m-alone", 1, None)),
            )
        ],
    }


WORLD: World = {
    "subscribers": [{"id": 1, "email": ADA}],
    "dispatches": [
        {
            "id": 1,
            "provider_message_id": "m-ada",
            "subscriber_id": 1,
            "delivered_at": NOON + 3 * SECOND,
        }
    ],
}
RARE = [
    # What is live sets the time back; what is not then finds the earlier one.
    [
        Arrival(Delivered(ADA, "m-ada", NOON + SECOND), b"{}", NOON),
        Arrival(Delivered(ADA, "m-ada", at), b"{}", NOON, live=False),
    ]
    for at in (NOON, NOON + 2 * SECOND)
] + [
    # Of equal times the last to arrive counts.
    [
        Arrival(Suppressed(ADA, "m-ada", NOON, "HardBounce"), b"{}", NOON),
        Arrival(Suppressed(ADA, "m-ada", at, "SpamComplaint"), b"{}", NOON),
    ]
    for at in (NOON, NOON - SECOND)
]
"""Groups that chance would seldom find."""


def _fill(home: Home, world: World) -> None:
    keys = ("id", "subscriber_id", "list_id")
    home.fill(
        **{
            name: [
                {
                    column: home.key(value) if column in keys and value is not None else value
                    for column, value in row.items()
                }
                for row in rows
            ]
            for name, rows in world.items()
        }
    )


def _ends(
    home: Home, arrivals: Sequence[Arrival], *, size: int
) -> tuple[list[Outcome], Rows, list[dict[str, Any]]]:
    """Record in groups of that size; return how each ended, all rows, and the log.

    What the log says of now is left out.
    """
    outcomes: list[Outcome] = []
    for start in range(0, len(arrivals), size):
        outcomes += record(home.store, arrivals[start : start + size])
    return outcomes, home.rows(), timeless(home)


SCHEMAS = {"dated": OURS, "undated": UNDATED, "sparse": SPARSE, "fitted": FITTED}
MODELS = {"dated": CRM, "undated": BARE, "sparse": LEAN}
"""The same for Django, in models of a host's."""


PAIRS = [
    (place, name)
    for place in EXAMPLES
    for name in (MODELS if place.startswith("django-") else SCHEMAS)
]


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return where the rows are, and the name of their schema."""
    pair: tuple[str, str] = request.param
    return pair


@pytest.fixture(scope="module")
def place(pair: tuple[str, str]) -> str:
    """Return where the rows are."""
    return pair[0]


@pytest.fixture(scope="module")
def home(pair: tuple[str, str], new_database: Callable[[str], str]) -> Iterator[Home]:
    """Make one home for all groups; each fills it anew."""
    place, name = pair
    if place == "memory":
        yield MemoryHome(SCHEMAS[name])
        return
    with closing(_make_home(place, name, new_database)) as home:
        yield home


def _make_home(place: str, name: str, new_database: Callable[[str], str]) -> Home:
    if place.startswith("django-"):
        return DjangoHome(new_database(place.removeprefix("django-")), MODELS[name])
    return make_home(new_database(place), SCHEMAS[name])


def _hold(place: str, claim: Callable[[World, Group, int], None]) -> None:
    """Try the claim on as many groups as the place bears."""
    tried = given(worlds(), groups, st.integers(2, 9))(claim)
    for group in RARE:
        tried = example(WORLD, group, 2)(tried)
    # Time is a database's, and the machine's.
    settings(
        max_examples=EXAMPLES[place],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )(tried)()


def test_a_group_ends_as_its_members_would_have(home: Home, place: str) -> None:
    """Outcomes, rows and log are the same, however the arrivals are cut into groups."""

    def claim(world: World, group: Group, size: int) -> None:
        _fill(home, world)
        one_by_one = _ends(home, group, size=1)
        _fill(home, world)
        assert _ends(home, group, size=size) == one_by_one

    _hold(place, claim)


def test_a_group_ends_as_it_does_in_memory(home: Home, place: str) -> None:
    """Statuses, texts, states and log are the same in every database and in none."""
    memory = MemoryHome(home.schema)

    def told(home: Home, world: World, group: Group, size: int) -> object:
        _fill(home, world)
        outcomes, rows, logged = _ends(home, group, size=size)
        return (
            logged,
            [each.text if isinstance(each, Refused) else len(each.changes) for each in outcomes],
            {
                name: [
                    {column: row[column] for column in row if not column.endswith("id")}
                    for row in rows[name]
                ]
                for name in rows
            },
        )

    def claim(world: World, group: Group, size: int) -> None:
        assert told(home, world, group, size) == told(memory, world, group, 1)

    _hold(place, claim)
