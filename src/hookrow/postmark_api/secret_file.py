"""The file with hookrow's secrets, and the state of a rotation, which is in a file beside it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

from hookrow.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class State:
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
    def state(self) -> State:
        """The state of the rotation."""
        try:
            first, *removed = self._state.read_text(encoding="utf-8").split()
            at = datetime.fromisoformat(first)
            at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        except (OSError, ValueError, OverflowError):
            return State()
        return State(at, tuple(removed))

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
