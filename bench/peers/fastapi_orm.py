"""What a FastAPI developer writes: pydantic reads the notification, SQLAlchemy's ORM records it.

It answers with hookrow's statuses and sets the same on the same rows, in a transaction for
each request; it keeps no log.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import datetime
from secrets import compare_digest
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, HTTPException, Response
from pydantic import AwareDatetime, BaseModel, Field, RootModel
from sqlalchemy import URL, DateTime, ForeignKey, event, make_url, or_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.ext.asyncio import create_async_engine as create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from data import SECRET
from hookrow.stores.tables import folded

DRIVERS = {"postgresql": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}


class Base(DeclarativeBase):
    """What all tables have: a key, and times with a zone."""

    type_annotation_map = {datetime: DateTime(timezone=True)}  # noqa: RUF012 - SQLAlchemy's own
    id: Mapped[int] = mapped_column(primary_key=True)


class Suppressible:
    """What a subscription change sets."""

    suppressed_at: Mapped[datetime | None]
    suppression_reason: Mapped[str | None]
    suppression_changed_at: Mapped[datetime | None]


class Subscriber(Suppressible, Base):
    """Somebody who gets mail."""

    __tablename__ = "hookrow_subscribers"
    email: Mapped[str]


class Dispatch(Suppressible, Base):
    """A message to a subscriber."""

    __tablename__ = "hookrow_dispatches"
    provider_message_id: Mapped[str | None]
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("hookrow_subscribers.id"))
    list_id: Mapped[int | None]
    delivered_at: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]


class Subscription(Suppressible, Base):
    """A subscriber of a list."""

    __tablename__ = "hookrow_subscriptions"
    list_id: Mapped[int]
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("hookrow_subscribers.id"))


class Mentioning(BaseModel):
    """What every notification says."""

    recipient: str = Field(alias="Recipient")
    message_id: str = Field(alias="MessageID")


class Delivery(Mentioning):
    """A message was delivered."""

    record_type: Literal["Delivery"] = Field(alias="RecordType")
    delivered_at: AwareDatetime = Field(alias="DeliveredAt")


class Open(Mentioning):
    """A message was opened."""

    record_type: Literal["Open"] = Field(alias="RecordType")
    received_at: AwareDatetime = Field(alias="ReceivedAt")


class SubscriptionChange(Mentioning):
    """A recipient is not to get mail any more, or is again."""

    record_type: Literal["SubscriptionChange"] = Field(alias="RecordType")
    suppress_sending: bool = Field(alias="SuppressSending")
    suppression_reason: str | None = Field(alias="SuppressionReason", default=None)
    changed_at: AwareDatetime = Field(alias="ChangedAt")


class Notification(RootModel[Delivery | Open | SubscriptionChange]):
    """Any of them."""

    root: Delivery | Open | SubscriptionChange = Field(discriminator="record_type")


def _engine(url: URL) -> AsyncEngine:
    """Make an engine; on SQLite one writes at a time, and more than the next would only wait."""
    url = url.set(drivername=DRIVERS[url.drivername])
    if not url.drivername.startswith("sqlite"):
        return create_engine(url, pool_size=20, max_overflow=0)
    engine = create_engine(
        url, pool_size=2, max_overflow=0, connect_args={"timeout": 20, "isolation_level": None}
    )
    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "begin", lambda it: it.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _set_up(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


sessions = async_sessionmaker(
    _engine(make_url(os.environ["BENCH_DATABASE_URL"])), expire_on_commit=False
)
app = FastAPI(openapi_url=None)


async def begun() -> AsyncIterator[AsyncSession]:
    """Commit before the answer, or roll back."""
    async with sessions.begin() as session:
        yield session


def verify(x_provider_secret: Annotated[str, Header()] = "") -> None:
    """Let in who has the secret."""
    if not compare_digest(x_provider_secret.encode(), SECRET.encode()):
        raise HTTPException(401, "Cannot verify webhook")


@app.post("/provider/webhooks", dependencies=[Depends(verify)])
async def webhooks(
    notification: Notification,
    session: Annotated[AsyncSession, Depends(begun, scope="function")],
) -> Response:
    """Set on the rows what the notification says."""
    said = notification.root
    email = folded(Subscriber.email) == said.recipient.lower()
    subscriber = await session.scalar(select(Subscriber).where(email))
    if subscriber is None:
        raise HTTPException(404, "Engine::Subscriber not found")
    is_it = Dispatch.provider_message_id == said.message_id
    dispatch = await session.scalar(select(Dispatch).where(is_it))
    if isinstance(said, SubscriptionChange):
        await _suppress(session, said, subscriber, dispatch)
        return Response()
    if dispatch is None:
        raise HTTPException(404, "Engine::Dispatch not found")
    if dispatch.subscriber_id != subscriber.id:
        raise HTTPException(400, "Dispatch subscriber does not match payload recipient")
    if isinstance(said, Delivery):
        dispatch.delivered_at = said.delivered_at
    else:
        dispatch.opened_at = said.received_at
    return Response()


async def _suppress(
    session: AsyncSession,
    said: SubscriptionChange,
    subscriber: Subscriber,
    dispatch: Dispatch | None,
) -> None:
    """Suppress, or lift the suppression of, what has not changed since."""
    at = said.changed_at
    new = {
        "suppressed_at": at if said.suppress_sending else None,
        "suppression_reason": said.suppression_reason if said.suppress_sending else None,
        "suppression_changed_at": at,
    }
    chosen: list[tuple[Any, Any]] = [(Subscriber, Subscriber.id == subscriber.id)]
    if dispatch is not None:
        of_list = Subscription.list_id == dispatch.list_id
        chosen.append((Dispatch, Dispatch.id == dispatch.id))
        chosen.append((Subscription, of_list & (Subscription.subscriber_id == subscriber.id)))
    for model, wanted in chosen:
        changed_at = model.suppression_changed_at
        older = or_(changed_at.is_(None), changed_at <= at)
        change = update(model).where(wanted, older).values(new)
        await session.execute(change.execution_options(synchronize_session=False))
