"""Replaces the secret of the webhooks at Postmark, without losing a notification.

Each step reads the present state first, so an interrupted rotation can be repeated: the secret
file has one line before and after a rotation, and two lines in between, and the webhooks have
either secret. When all have the new one, the time is written beside the secret file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_urlsafe
from tempfile import NamedTemporaryFile
from typing import Any

from hookrow.describe import format_time, pluralize
from hookrow.diagnostics.probe import accepts, parse_url
from hookrow.errors import ConfigurationError
from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.errors import APIError, Unconfirmed
from hookrow.postmark_api.webhooks import Stream, Webhook, read_webhooks, without_secrets
from hookrow.stores import Store
from hookrow.stores.log import RequestKind

RETRIES_FOR = timedelta(minutes=72)
"""How long the provider repeats a notification; the first attempts may have had the old secret."""

PROBES = 20
"""The number of requests, each on a new connection, that an instance must accept in a row.

Several processes may share an address, and each has to read the secret file.
"""

WAIT = 300.0
"""In seconds; how long a step waits for the instances."""

POLL_EVERY = 2.0
"""In seconds."""

ATTEMPTS = 3
"""The largest number of attempts to change a webhook in a run."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with one secret per line, the newest first, and the state of a rotation beside it.

    `read` returns the secrets, or raises `ConfigurationError`.
    """

    path: Path
    read: Callable[[], Sequence[str]]

    def write(self, secrets: Sequence[str]) -> None:
        """Replace the file at once, keeping its mode and owner. Raises `ConfigurationError`."""
        path = self.path.resolve()
        try:
            found = path.stat()
            with NamedTemporaryFile(
                "w", dir=path.parent, prefix=f".{path.name}.", delete=False
            ) as new:
                try:
                    os.fchmod(new.fileno(), found.st_mode & 0o7777)
                    with suppress(PermissionError):
                        os.fchown(new.fileno(), found.st_uid, found.st_gid)
                    new.write("".join(f"{each}\n" for each in secrets))
                    new.flush()
                    os.fsync(new.fileno())
                    Path(new.name).replace(path)
                except BaseException:
                    Path(new.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise ConfigurationError(
                f"The secret file {self.path} cannot be replaced: {error.strerror}. The command "
                "must be able to write to its directory."
            ) from error

    @property
    def _state(self) -> Path:
        return self.path.with_name(f"{self.path.name}.rotated")

    @property
    def rotated_at(self) -> datetime | None:
        """When all webhooks had the new secret, in UTC; None before that."""
        try:
            return datetime.fromisoformat(self._state.read_text().strip())
        except (OSError, ValueError):
            return None

    def set_rotated(self, at: datetime | None) -> None:
        """Set or remove that time. Raises `ConfigurationError`."""
        try:
            if at is None:
                self._state.unlink(missing_ok=True)
            else:
                self._state.write_text(f"{at.isoformat()}\n")
        except OSError as error:
            raise ConfigurationError(
                f"{self._state} cannot be written: {error.strerror}."
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A rotation of the secret in a file; see `begin` and `finish`.

    `instances` are the URLs at which the instances of hookrow receive notifications; without any,
    those of the webhooks are used. `sleep` and `now` are the clock.
    """

    api: PostmarkAPI
    file: SecretFile
    header: str
    streams: Sequence[Stream]
    instances: Sequence[str] = ()
    dry_run: bool = False
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def begin(self) -> Iterator[str]:
        """Give the webhooks a new secret; yield a sentence about each step.

        Raises `ConfigurationError` and `APIError`.
        """
        for each in self.instances:
            parse_url(each)
        secrets, webhooks = self.file.read(), self._webhooks()
        if not webhooks:
            raise ConfigurationError(
                "The provider has no webhook with a secret of the file: run `hookrow provider "
                "register` first."
            )
        if len(secrets) == 1:
            secrets = [token_urlsafe(), *secrets]
            self.api.hide(secrets[0])
            if not self.dry_run:
                self.file.set_rotated(None)
                self.file.write(secrets)
            verb = self._verb("Wrote", "write")
            yield f"{verb} a new secret before the old one in {self.file.path}."
        if self.dry_run:
            yield f"Would give the new secret to webhooks {_ids(webhooks)}."
            return
        yield from self._wait(secrets[0], accepted=True)
        if self._without(secrets[0]):
            # The provider's retries with the old secret end later than after an earlier rotation.
            self.file.set_rotated(None)
        for webhook in webhooks:
            if self._change(webhook, secrets[0]):
                yield f"Webhook {webhook.id} of the stream {webhook.stream} has the new secret."
        if self.file.rotated_at is None:
            self.file.set_rotated(self.now())
        until = (self.file.rotated_at or self.now()) + RETRIES_FOR
        yield (
            "The old secret is still accepted, because the provider may repeat notifications that "
            f"have it. Run the command with --finish after {format_time(until)}."
        )

    def finish(self, store: Store | None) -> Iterator[str]:
        """Remove the old secrets from the file; yield a sentence about each step.

        Raises `ConfigurationError` while an old secret may still be used: by a webhook, by the
        provider's retries or, if the store has a log, by a request in this or the previous hour.
        `store` is None if it cannot be opened, which is an error during a rotation.
        """
        newest, *old = self.file.read()
        if pending := self._without(newest):
            raise ConfigurationError(
                f"Webhooks {_ids(pending)} do not have the newest secret: run the command without "
                "--finish first."
            )
        if not old:
            if not self.dry_run:
                self.file.set_rotated(None)
            yield f"No rotation is in progress: {self.file.path} has one secret."
            return
        self._check_unused(store)
        if not self.dry_run:
            self.file.write([newest])
        yield f"{self._verb('Removed', 'remove')} the old secret from {self.file.path}."
        if self.dry_run:
            return
        self.file.set_rotated(None)
        for each in old:
            yield from self._wait(each, accepted=False)
        yield "The rotation is complete."

    def _check_unused(self, store: Store | None) -> None:
        """Raise `ConfigurationError` if an old secret may still be used."""
        now, rotated_at = self.now(), self.file.rotated_at
        if rotated_at is None:
            raise ConfigurationError(
                "The time of the rotation is unknown: run the command without --finish first."
            )
        if now < (until := rotated_at + RETRIES_FOR):
            minutes = -(-(until - now) // timedelta(minutes=1))
            raise ConfigurationError(
                "The provider may repeat notifications with the old secret for another "
                f"{pluralize(minutes, 'minute')}: try again after {format_time(until)}."
            )
        if store is None:
            raise ConfigurationError(
                "The log, which has the last use of the old secret, cannot be opened: set the "
                "database, and try again."
            )
        since = now - timedelta(hours=2)
        used = store.log.requests(RequestKind.OLD_SECRET, since).last if store.log else None
        if used is not None and used > since:
            raise ConfigurationError(
                f"The old secret was used in the hour from {format_time(used)}: find its "
                "sender, and try again two hours later."
            )

    def _webhooks(self) -> Sequence[Webhook]:
        """Return the webhooks that have a secret of the file."""
        secrets = self.file.read()
        return [
            each
            for stream in self.streams
            for each in read_webhooks(self.api, stream)
            if each.is_ours and any(value in secrets for value in each.values(self.header))
        ]

    def _without(self, secret: str) -> Sequence[Webhook]:
        """Return those of the webhooks that do not have only this secret."""
        return [each for each in self._webhooks() if list(each.values(self.header)) != [secret]]

    def _change(self, webhook: Webhook, secret: str) -> bool:
        """Give a webhook the secret, and verify that it has it; return whether it did not."""
        for attempt in range(ATTEMPTS + 1):
            found = next((each for each in self._webhooks() if each.id == webhook.id), None)
            if found is None:
                raise APIError(
                    f"Webhook {webhook.id} was deleted, or its header was changed, during the "
                    "rotation: run the command again."
                )
            if list(found.values(self.header)) == [secret]:
                return attempt > 0
            if attempt < ATTEMPTS:
                others = [
                    each
                    for each in found.headers
                    if str(each.get("Name")).lower() != self.header.lower()
                ]
                headers: Mapping[str, Any] = {"Name": self.header, "Value": secret}
                with suppress(Unconfirmed):
                    body = {"HttpHeaders": [*others, headers], "Verify": True}
                    self.api.put(f"/webhooks/{webhook.id}", body)
        raise APIError(
            f"Webhook {webhook.id} does not have the new secret after {ATTEMPTS} changes."
        )

    def _wait(self, secret: str, *, accepted: bool) -> Iterator[str]:
        """Wait until all instances accept or reject a secret. Raises `ConfigurationError`."""
        urls = self.instances or sorted({each.url for each in self._webhooks()})
        waited, told = 0.0, False
        while pending := ", ".join(
            without_secrets(each)
            for each in urls
            if not self._agrees(each, secret, accepted=accepted)
        ):
            verb = "accept the new secret" if accepted else "reject the old secret"
            if not told:
                yield (
                    f"Waiting until {pending} {verb}: send SIGHUP to each hookrow "
                    "serve, or restart the application."
                )
                told = True
            if waited >= WAIT:
                raise ConfigurationError(
                    f"After {WAIT:.0f} s, {pending} did not {verb}. Let each instance "
                    "read the secret file, and run the command again: it continues here."
                )
            self.sleep(POLL_EVERY)
            waited += POLL_EVERY

    def _agrees(self, url: str, secret: str, *, accepted: bool) -> bool:
        """Return whether all probes of an instance are accepted, or all are rejected."""
        return all(accepts(url, secret, header=self.header) is accepted for _ in range(PROBES))

    def _verb(self, done: str, would: str) -> str:
        return f"Would {would}" if self.dry_run else done


def _ids(webhooks: Sequence[Webhook]) -> str:
    return ", ".join(str(each.id) for each in webhooks)
