"""Replaces the secret of the webhooks at Postmark, without losing a notification.

Each step reads the present state first, so an interrupted rotation can be repeated: the secret
file has one line before and after a rotation, and two lines in between, and the webhooks have
either secret. The state in a file beside the secret file is kept until no instance accepts the old
secret.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_urlsafe
from tempfile import NamedTemporaryFile

from hookrow._describe import format_time, pluralize
from hookrow._diagnostics.probe import accepts, parse_url
from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.errors import APIError, VerificationFailed
from hookrow._postmark_api.register import Change, Plan, apply_changes
from hookrow._postmark_api.webhooks import Stream, Webhook, read_webhooks, without_secrets
from hookrow._receiver.hourly import COUNT_EVERY
from hookrow.errors import ConfigurationError
from hookrow.stores._log import RequestKind
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog

if sys.platform != "win32":
    import fcntl

RETRIES_FOR = timedelta(minutes=72)
"""How long the provider repeats a notification; the first attempts may have had the old secret."""

PROBES = 20
"""The number of requests, each on a new connection, that an instance must accept in a row.

Several processes may share an address, and each has to read the secret file.
"""

INSTANCES_TIMEOUT = 300.0
"""Seconds for which a step waits for the instances."""

COUNTED_WITHIN = COUNT_EVERY + 15
"""Seconds within which every process writes the number of uses of the old secret."""

PROBE_EVERY = 2.0
"""Seconds between two rounds of probes while a step waits for the instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A rotation of the secret in a file; see `begin` and `finish`.

    `instances` are the URLs at which the instances of hookrow receive notifications; without any,
    those of the webhooks are used. `sleep` and `now` are the clock.
    """

    api: PostmarkAPI
    file: SecretFile
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
        with self.file.locked():
            yield from self._begin()

    def finish(self, store: SQLStore | None) -> Iterator[str]:
        """Remove the old secrets from the file; yield a sentence about each step.

        Raises `ConfigurationError` while an old secret may still be used: by a webhook, by the
        provider's retries or, if the store has a log, by a request in this or the previous hour.
        `store` is None if it cannot be opened, which is an error during a rotation.
        """
        with self.file.locked():
            yield from self._finish(store)

    def _begin(self) -> Iterator[str]:
        secrets, webhooks = self.file.read(), self._webhooks()
        if not webhooks:
            raise ConfigurationError(
                "The provider has no webhook with a secret of the file: run `hookrow provider "
                "register` first."
            )
        if len(secrets) == 1:
            secrets = self._add_secret(secrets)
            verb = self._verb("Wrote", "write")
            yield f"{verb} a new secret before the old one in {self.file.path}."
        if self.dry_run:
            yield f"Would give the new secret to webhooks {_ids(webhooks)}."
            return
        newest, *old = secrets
        yield from self._wait(newest, "accept the new secret", accepted=True)
        for each in old:  # which the provider's retries have
            yield from self._wait(each, "accept the old secret besides the new one", accepted=True)
        if self._without(newest):
            # The provider's retries with the old secret end later than after an earlier rotation.
            self.file.delete_state()
        for webhook in webhooks:
            if self._change(webhook, newest):
                yield f"Webhook {webhook.id} of the stream {webhook.stream} has the new secret."
        rotated_at = self.file.state.rotated_at
        if rotated_at is None:
            self.file.set_state(rotated_at := self.now())
        yield (
            "The old secret is still accepted, because the provider may repeat notifications that "
            f"have it. Run the command with --finish after {format_time(rotated_at + RETRIES_FOR)}."
        )

    def _add_secret(self, old: Sequence[str]) -> Sequence[str]:
        """Write a new secret before the old one; return both."""
        if self.file.state.removed:
            raise ConfigurationError(
                "The previous rotation is not complete: run the command with --finish first."
            )
        secrets = [token_urlsafe(), *old]
        self.api.hide(secrets[0])
        if not self.dry_run:
            self.file.delete_state()
            self.file.write(secrets)
        return secrets

    def _finish(self, store: SQLStore | None) -> Iterator[str]:
        newest, *old = self.file.read()
        if pending := self._without(newest):
            raise ConfigurationError(
                f"Webhooks {_ids(pending)} do not have the newest secret: run the command without "
                "--finish first."
            )
        # An interrupted run has removed them from the file, but perhaps not from every instance.
        removed = old or [each for each in self.file.state.removed if each != newest]
        self.api.hide(*removed)
        if old:
            rotated_at = self._check_retries()
            yield from self._check_uses(store)
            if not self.dry_run:
                self.file.set_state(rotated_at, old)
                self.file.write([newest])
            yield f"{self._verb('Removed', 'remove')} the old secret from {self.file.path}."
        elif not removed:
            yield f"No rotation is in progress: {self.file.path} has one secret."
        if self.dry_run:
            return
        for each in removed:
            yield from self._wait(each, "reject the old secret", accepted=False)
        self.file.delete_state()
        if removed:
            yield "The rotation is complete."

    def _check_retries(self) -> datetime:
        """Return the time of the rotation.

        Raises `ConfigurationError` while the provider may repeat notifications with an old secret.
        """
        now, rotated_at = self.now(), self.file.state.rotated_at
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
        return rotated_at

    def _check_uses(self, store: SQLStore | None) -> Iterator[str]:
        """Check that no old secret was used recently; yield sentences about the wait.

        Raises `ConfigurationError` if one was used, or if the log cannot be opened.
        """
        if store is None:
            raise ConfigurationError(
                "The log, which has the last use of the old secret, cannot be opened: set the "
                "database, and try again."
            )
        if store.log is None:
            yield (
                "Warning: The log is disabled, so the command cannot see whether the old secret is "
                "still used."
            )
            return
        self._check_log(store.log)
        yield (
            f"Waiting for {COUNTED_WITHIN:.0f} s, because the uses of the old secret are written "
            "once a minute."
        )
        self.sleep(COUNTED_WITHIN)
        self._check_log(store.log)

    def _check_log(self, log: SQLLog) -> None:
        """Raise `ConfigurationError` if an old secret was used recently."""
        since = self.now() - timedelta(hours=2)
        # Those of all entries: the receiver may have another name for the entry than the command.
        for entry, used in log.requests(RequestKind.OLD_SECRET, since).items():
            if used.last > since:
                of_entry = f" of the entry {entry}" if entry else ""
                raise ConfigurationError(
                    f"The old secret{of_entry} was used in the hour from "
                    f"{format_time(used.last)}: find its sender, and try again two hours later."
                )

    def _webhooks(self) -> Sequence[Webhook]:
        """Return the webhooks that have a secret of the file."""
        secrets = self.file.read()
        return [
            each
            for stream in self.streams
            for each in read_webhooks(self.api, stream)
            if each.is_hookrow and any(value in secrets for value in each.secrets)
        ]

    def _without(self, secret: str) -> Sequence[Webhook]:
        """Return the webhooks that have another secret, or several."""
        return [each for each in self._webhooks() if each.secrets != [secret]]

    def _change(self, webhook: Webhook, secret: str) -> bool:
        """Give a webhook the secret; return True if it had to be changed."""

        def find() -> Plan:
            found = next((each for each in self._webhooks() if each.id == webhook.id), None)
            if found is None:
                raise APIError(
                    f"Webhook {webhook.id} was deleted, or its header was changed, during the "
                    "rotation: run the command again."
                )
            if found.secrets == [secret]:
                return found, None
            body = {"HttpHeaders": found.with_secret(secret), "Verify": True}
            return found, Change(found.stream, found.id, ["It has an old secret."], body)

        try:
            _, made = apply_changes(self.api, find, self.sleep)
        except VerificationFailed as error:
            error.url = webhook.address
            raise
        return bool(made)

    def _wait(self, secret: str, verb: str, *, accepted: bool) -> Iterator[str]:
        """Wait until all instances accept or reject a secret. Raises `ConfigurationError`."""
        urls = self.instances or sorted({each.url for each in self._webhooks()})
        until = self.now() + timedelta(seconds=INSTANCES_TIMEOUT)
        is_announced = False
        while pending := ", ".join(
            without_secrets(each)
            for each in urls
            if not self._agrees(each, secret, accepted=accepted)
        ):
            if not is_announced:
                is_announced = True
                yield (
                    f"Waiting for {pending} to {verb}: send SIGHUP to each `hookrow serve`, or "
                    "restart the application."
                )
            if self.now() >= until:
                raise ConfigurationError(
                    f"After {INSTANCES_TIMEOUT:.0f} s, {pending} did not {verb}. Let each instance "
                    "read the secret file, and run the command again: it continues here."
                )
            self.sleep(PROBE_EVERY)

    def _agrees(self, url: str, secret: str, *, accepted: bool) -> bool:
        """Return whether all probes of an instance are accepted, or all are rejected."""
        return all(accepts(url, secret) is accepted for _ in range(PROBES))

    def _verb(self, done: str, would: str) -> str:
        return f"Would {would}" if self.dry_run else done


def _ids(webhooks: Sequence[Webhook]) -> str:
    return ", ".join(str(each.id) for each in webhooks)


@dataclass(frozen=True, slots=True)
class RotationState:
    """The state of a rotation in progress.

    `rotated_at` is the time, in UTC, at which all webhooks had the new secret, or None if unknown.
    `removed` are secrets removed from the file that an instance may still accept.
    """

    rotated_at: datetime | None = None
    removed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with one secret per line, the newest first.

    `read` returns the secrets, or raises `ConfigurationError`.
    """

    path: Path
    read: Callable[[], Sequence[str]]

    def write(self, secrets: Sequence[str]) -> None:
        """Replace the secrets. Raises `ConfigurationError`."""
        self._replace(self.path, secrets)

    @property
    def state(self) -> RotationState:
        """The state of the rotation."""
        try:
            first, *removed = self._state.read_text(encoding="utf-8").split()
            at = datetime.fromisoformat(first)
            at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        except (OSError, ValueError, OverflowError):
            return RotationState()
        return RotationState(at, tuple(removed))

    def set_state(self, rotated_at: datetime, removed: Sequence[str] = ()) -> None:
        """Replace the state. Raises `ConfigurationError`."""
        self._replace(self._state, [rotated_at.isoformat(), *removed])

    def delete_state(self) -> None:
        """Delete the state, if there is one. Raises `ConfigurationError`."""
        try:
            self._state.unlink(missing_ok=True)
        except OSError as error:
            raise _not_writable(self._state, error) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent rotations by other processes during the block. Raises `ConfigurationError`.

        The lock is that of the directory, because the files are replaced. It ends with the process.
        """
        directory = self.path.resolve().parent
        try:
            descriptor = os.open(directory, os.O_RDONLY)
        except OSError as error:
            raise _not_writable(self.path, error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigurationError(
                    f"A rotation of a secret file in {directory} is already running "
                    f"({error.strerror}): wait until it ends."
                ) from error
            yield
        finally:
            os.close(descriptor)

    @property
    def _state(self) -> Path:
        return self.path.with_name(f"{self.path.name}.rotated")

    def _replace(self, path: Path, lines: Sequence[str]) -> None:
        """Replace a file at once, with the mode and the owner of the secret file."""
        path = path.resolve()
        try:
            found = self.path.stat()
            with NamedTemporaryFile(
                "w", dir=path.parent, prefix=f".{path.name}.", delete=False
            ) as new:
                try:
                    os.fchmod(new.fileno(), found.st_mode & 0o7777)
                    os.fchown(new.fileno(), found.st_uid, found.st_gid)
                    new.write("".join(f"{each}\n" for each in lines))
                    new.flush()
                    os.fsync(new.fileno())
                    Path(new.name).replace(path)
                except BaseException:
                    Path(new.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be replaced: {error.strerror}. Run the command as the owner of the "
        "secret file, who must be able to write to its directory."
    )
