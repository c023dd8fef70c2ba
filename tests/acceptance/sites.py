"""A receiver with several providers for each of several tenants, and what the providers post to it.

Each tenant has a model of its own, and the rows of all models are in one home.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import chain
from operator import itemgetter
from typing import Any

from homes import KEYS, Home, Row, Rows, columns_of
from hypothesis import strategies as st
from model import (
    TWO_EFFECTS,
    Draft,
    Event,
    Model,
    by_itself,
    decks,
    happened,
    payload_of,
    payloads_of,
)
from sqlalchemy import insert
from standardwebhooks import Webhook
from tenanted import tenants_of

import hookrow
from courier import Courier, signed
from hookrow import Postmark, Request, RequestHead, Schema, Tenant
from hookrow._core.notification import Key
from hookrow._receiver.entries import Entries, Entry, read_entries
from hookrow.providers import Provider
from hookrow.providers.resend import Resend
from wire import ENDPOINT, SECRET

SIGNING_SECRET = f"whsec_{b64encode(b'a key of the webhook').decode()}"

PROVIDERS: Mapping[str, Callable[[], Provider]] = {
    "mail": partial(Postmark, SECRET),
    "more": partial(Postmark, SECRET),
    "parcels": Courier,
    "letters": partial(Resend, SIGNING_SECRET),
}
"""The providers of each tenant. Two of them post equal bodies."""

IDS_OF_TENANT = 10
"""The distance between the ids of two tenants' rows, of which each has fewer."""


@dataclass(frozen=True)
class Site:
    """The entries of a receiver, the events that may be posted to them, and their tenants."""

    entries: Entries[Provider]
    decks: st.SearchStrategy[Sequence[Event]]
    tenants: Mapping[str | None, Key | None]
    """By the name of the entry; None for those of a single provider."""


class Lister(Provider):
    """The only provider of a receiver: an event is a list of payloads of Postmark."""

    name = "lister"

    def admit(self, _: object) -> None:
        return None

    def read(self, request: Request) -> Sequence[hookrow.Event]:
        return [self.parse(request.body)]

    def parse(self, body: bytes) -> hookrow.Event:
        """Return the event, with the notification of each payload."""
        read = [Postmark.parse(json.dumps(each).encode()) for each in json.loads(body)]
        return hookrow.Event([*chain(*(each.notifications for each in read))], body)


SINGLE = Site(read_entries(Lister()), decks(by_itself), {None: None})


def providers_of(schema: Schema) -> Mapping[str, Tenant]:
    """Return the entries of a receiver in which each tenant of the schema has every provider."""
    return {
        f"{tenant}-{provider}": Tenant(construct(), value)
        for tenant, value in tenants_of(schema).items()
        for provider, construct in PROVIDERS.items()
    }


def site_of(schema: Schema) -> Site:
    """Return the receiver with these entries."""
    entries = read_entries(providers_of(schema))
    posts = [
        partial(POSTS[provider], f"{tenant}-{provider}")
        for tenant in tenants_of(schema)
        for provider in PROVIDERS
    ]
    return Site(entries, decks(*posts), {each.name: each.tenant for each in entries})


def _by_postmark(entry: str, draft: Draft, second: int) -> Event:
    payload = payload_of(_first_effect(draft), second)
    return _logged(json.dumps(payload), (payload,), entry, "postmark")


def _by_courier(entry: str, draft: Draft, second: int) -> Event:
    """Return an event, which may have two effects; the bounce of a third is not recorded."""
    kind, recipient, message_id, reason = draft
    type_ = "bounced" if reason else "restored"
    if kind != "SubscriptionChange" or reason == "SpamComplaint":
        type_ = _TYPES_OF_COURIER[kind]
    if type_ == "unsubscribed":
        draft = "OpenAndDrop", recipient, message_id, reason
    payloads = payloads_of(draft, second)
    at = happened(Event("", payloads)).isoformat()
    sent = {"type": type_, "to": recipient, "message": message_id, "at": at, "reason": reason}
    body = json.dumps({"id": _id_of(sent), **sent})
    return _logged(body, payloads, entry, "courier", "Bounce" if type_ == "bounced" else None)


_TYPES_OF_COURIER = {
    "Delivery": "delivered",
    "Open": "opened",
    "OpenAndDrop": "unsubscribed",
    "DropAndOpen": "dropped",
    "SubscriptionChange": "unsubscribed",
    "Bounce": "packed",
}


def _by_resend(entry: str, draft: Draft, second: int) -> Event:
    """Return an event; a suppression has no message."""
    kind, recipient, message_id, reason = draft = _first_effect(draft)
    payload = dict(payload_of(draft, second))
    data: dict[str, object] = {"email_id": message_id, "to": [recipient]}
    if kind == "SubscriptionChange":
        payload["MessageID"] = None
        origins = {"HardBounce": "bounce", "SpamComplaint": "complaint"}
        data = {"email": recipient, "origin": origins.get(reason or "")}
    types = {"Delivery": "delivered", "Open": "opened", "Bounce": "bounced"}
    type_ = f"email.{types[kind]}" if kind in types else "suppression.added"
    if kind == "SubscriptionChange" and reason is None:
        type_ = "suppression.removed"
    at = happened(Event("", (payload,))).isoformat()
    body = json.dumps({"type": type_, "created_at": at, "data": data})
    return _logged(body, (payload,), entry, "resend")


def _first_effect(draft: Draft) -> Draft:
    """Return the draft of a provider whose events have one effect."""
    return ("Open", *draft[1:3], None) if draft[0] in TWO_EFFECTS else draft


POSTS: Mapping[str, Callable[[str, Draft, int], Event]] = {
    "mail": _by_postmark,
    "more": _by_postmark,
    "parcels": _by_courier,
    "letters": _by_resend,
}


def _logged(
    body: str,
    payloads: tuple[Mapping[str, Any], ...],
    entry: str,
    provider: str | None,
    record_type: str | None = None,
) -> Event:
    fields: dict[str, object] = {"provider": provider}
    if payloads[0]["RecordType"] != "Bounce":  # which is logged under the provider's name
        fields["record_type"] = record_type or payloads[0]["RecordType"]
        reasons = (each.get("SuppressionReason") for each in payloads)
        fields["reason"] = next(filter(None, reasons), None)
    return Event(body, payloads, entry, fields)


def _id_of(sent: object) -> str:
    return sha256(json.dumps(sent).encode()).hexdigest()


def request_of(entry: Entry[Provider], *bodies: str) -> Request:
    """Return the request in which the provider of an entry posts events; a courier posts several.

    The signature of the time is valid for a few minutes.
    """
    headers: Mapping[str, str] = {}
    if isinstance(entry.provider, Courier):
        return _request(entry, signed(*map(json.loads, bodies)), headers)
    [body] = bodies
    if isinstance(entry.provider, Resend):
        id_, at = _id_of(body), datetime.now(UTC).replace(microsecond=0)
        headers = {
            "webhook-id": id_,
            "webhook-timestamp": f"{at.timestamp():.0f}",
            "webhook-signature": Webhook(SIGNING_SECRET).sign(id_, at.replace(tzinfo=None), body),
        }
    else:
        headers = {"x-provider-secret": SECRET}
    return _request(entry, body.encode(), headers)


def _request(entry: Entry[Provider], body: bytes, headers: Mapping[str, str]) -> Request:
    path = f"{ENDPOINT}/{entry.name}" if entry.name else ENDPOINT
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request(RequestHead("POST", path, given), body)


class Models:
    """A model for each tenant of a receiver, whose rows are those of a home.

    All tenants have the `parts` of the rows, with the same addresses and message ids.
    """

    def __init__(self, home: Home, site: Site, *parts: Mapping[str, Sequence[Row]]) -> None:
        self._home, self._site = home, site
        self._tenants = [*{repr(each): each for each in site.tenants.values()}.values()]
        self._models = [Model() for _ in self._tenants]
        for each in parts:
            self._add(each)

    def __iter__(self) -> Iterator[Model]:
        """Return an iterator over the models."""
        return iter(self._models)

    def of(self, event: Event) -> Model:
        """Return the model of an event's tenant."""
        return self._models[self._tenants.index(self._site.tenants[event.entry])]

    def rows(self) -> Rows:
        """Return the rows of all models as the home reads them."""
        rows = {}
        for name in self._home.schema.roles:
            columns = columns_of(self._home.schema, name)
            of_role = [
                self._with_keys({**row, "tenant": tenant})
                for model, tenant in zip(self._models, self._tenants, strict=True)
                for row in model.rows[name]
            ]
            chosen = [{column: row[column] for column in columns} for row in of_role]
            rows[name] = sorted(chosen, key=itemgetter(*KEYS[name]))
        return rows

    def insert(
        self, rows: Mapping[str, Sequence[Row]], tenants: Collection[Key | None] | None = None
    ) -> None:
        """Insert rows of each of these tenants, or of all, into the home in one transaction."""
        new, home = Models(self._home, self._site), self._home
        new._add(rows, tenants)
        added = new.rows()
        with home._engine.begin() as connection:
            for name, of_role in added.items():
                if values := [home._row(name, row) for row in of_role]:
                    connection.execute(insert(home._tables[name]), values)
        self._add(rows, tenants)

    def _add(
        self, rows: Mapping[str, Sequence[Row]], tenants: Collection[Key | None] | None = None
    ) -> None:
        for number, (tenant, model) in enumerate(zip(self._tenants, self._models, strict=True)):
            if tenants is None or tenant in tenants:
                model.add({name: [_moved(row, number) for row in rows[name]] for name in rows})

    def _with_keys(self, row: Row) -> dict[str, Any]:
        keys = [name for name in ("id", "subscriber_id", "list_id") if row.get(name) is not None]
        return {**row, **{name: self._home.key(row[name]) for name in keys}}


def _moved(row: Row, number: int) -> Row:
    """Return a row with the ids of a tenant; the lists have the same ids for all of them."""
    ids = {
        name: row[name] + number * IDS_OF_TENANT for name in ("id", "subscriber_id") if name in row
    }
    return {**row, **ids}
