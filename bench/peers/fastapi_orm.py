"""A FastAPI application in which pydantic parses notifications and SQLAlchemy's ORM records them.

It returns hookrow's statuses and sets the same columns, in a transaction for each request. There
is no log.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import datetime
from secrets import compare_digest
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, HTTPException, Response
from pydantic import AwareDatetime, BaseModel, Field, RootModel
from sqlalchemy import (
    URL,
    DateTime,
    ForeignKey,
    collate,
    event,
    func,
    make_url,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.ext.asyncio import create_async_engine as create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

DATABASE = make_url(os.environ["HOOKROW_DATABASE_URL"])
SECRET = os.environ["HOOKROW_SECRET"]


class Base(DeclarativeBase):
    """A table with a primary key and times in UTC."""

    type_annotation_map = {datetime: DateTime(timezone=True)}  # noqa: RUF012 - of SQLAlchemy
    id: Mapped[int] = mapped_column(primary_key=True)


class Suppressible:
    """The columns that a SubscriptionChange sets."""

    suppressed_at: Mapped[datetime | None]
    suppression_reason: Mapped[str | None]
    suppression_changed_at: Mapped[datetime | None]


class Subscriber(Suppressible, Base):
    """A recipient of mail."""

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


class Common(BaseModel):
    """The fields of every notification."""

    recipient: str = Field(alias="Recipient")
    message_id: str = Field(alias="MessageID")


class Delivery(Common):
    """A message was delivered."""

    record_type: Literal["Delivery"] = Field(alias="RecordType")
    delivered_at: AwareDatetime = Field(alias="DeliveredAt")


class Open(Common):
    """A message was opened."""

    record_type: Literal["Open"] = Field(alias="RecordType")
    received_at: AwareDatetime = Field(alias="ReceivedAt")


class SubscriptionChange(Common):
    """A recipient was suppressed or reactivated."""

    record_type: Literal["SubscriptionChange"] = Field(alias="RecordType")
    suppress_sending: bool = Field(alias="SuppressSending")
    suppression_reason: str | None = Field(alias="SuppressionReason", default=None)
    changed_at: AwareDatetime = Field(alias="ChangedAt")


class Notification(RootModel[Delivery | Open | SubscriptionChange]):
    """A notification of any type."""

    root: Delivery | Open | SubscriptionChange = Field(discriminator="record_type")


def _create_engine(url: URL) -> AsyncEngine:
    """Create an engine; on SQLite with few connections, because only one of them can write."""
    if url.drivername == "postgresql":
        return create_engine(url.set(drivername="postgresql+asyncpg"), pool_size=20, max_overflow=0)
    engine = create_engine(
        url.set(drivername="sqlite+aiosqlite"),
        pool_size=2,
        max_overflow=0,
        connect_args={"timeout": 20, "isolation_level": None},
    )
    event.listen(engine.sync_engine, "connect", _configure)
    event.listen(engine.sync_engine, "begin", lambda each: each.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _configure(connection: Any, _: object) -> None:  # noqa: ANN401 - of the driver
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


folded_email = func.lower(
    Subscriber.email if DATABASE.drivername == "sqlite" else collate(Subscriber.email, "C")
)  # as in the index
sessions = async_sessionmaker(_create_engine(DATABASE), expire_on_commit=False)
app = FastAPI(openapi_url=None)


async def transaction() -> AsyncIterator[AsyncSession]:
    """Commit before the response, or roll back."""
    async with sessions.begin() as session:
        yield session


def verify(x_provider_secret: Annotated[str, Header()] = "") -> None:
    """Reject requests without the secret."""
    if not compare_digest(x_provider_secret.encode(), SECRET.encode()):
        raise HTTPException(401, "Cannot verify webhook")


@app.post("/provider/webhooks", dependencies=[Depends(verify)])
async def webhooks(
    notification: Notification,
    session: Annotated[AsyncSession, Depends(transaction, scope="function")],
) -> Response:
    """Record the notification in its rows."""
    given = notification.root
    subscriber = await session.scalar(
        select(Subscriber).where(folded_email == given.recipient.lower())
    )
    if subscriber is None:
        raise HTTPException(404, "Engine::Subscriber not found")
    dispatch = await session.scalar(
        select(Dispatch).where(Dispatch.provider_message_id == given.message_id)
    )
    if isinstance(given, SubscriptionChange):
        await _suppress(session, given, subscriber, dispatch)
        return Response()
    if dispatch is None:
        raise HTTPException(404, "Engine::Dispatch not found")
    if dispatch.subscriber_id != subscriber.id:
        raise HTTPException(400, "Dispatch subscriber does not match payload recipient")
    if isinstance(given, Delivery):
        dispatch.delivered_at = given.delivered_at
    else:
        dispatch.opened_at = given.received_at
    return Response()


async def _suppress(
    session: AsyncSession,
    given: SubscriptionChange,
    subscriber: Subscriber,
    dispatch: Dispatch | None,
) -> None:
    """Suppress the rows that have no newer change, or lift their suppression."""
    at = given.changed_at
    new = {
        "suppressed_at": at if given.suppress_sending else None,
        "suppression_reason": given.suppression_reason if given.suppress_sending else None,
        "suppression_changed_at": at,
    }
    rows: list[tuple[Any, Any]] = [(Subscriber, Subscriber.id == subscriber.id)]
    if dispatch is not None:
        of_list = Subscription.list_id == dispatch.list_id
        rows.append((Dispatch, Dispatch.id == dispatch.id))
        rows.append((Subscription, of_list & (Subscription.subscriber_id == subscriber.id)))
    for model, condition in rows:
        changed_at = model.suppression_changed_at
        older = or_(changed_at.is_(None), changed_at <= at)
        change = update(model).where(condition, older).values(new)
        await session.execute(change.execution_options(synchronize_session=False))
