"""Creates the files that contain personal data, so that only their owner can use them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

_creating = Lock()

if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_creating.acquire,
        after_in_parent=_creating.release,
        after_in_child=_creating.release,
    )


def create_private_file(path: Path) -> None:
    """Create an empty file with the mode 600, unless there is a file at the path.

    The mode of an existing file stays as it is. A symbolic link is followed. If the file becomes an
    SQLite database, its journals get its mode, because SQLite copies it. Raises `OSError`.
    """
    # Closing a descriptor releases all locks that the process has on the file. Therefore, no
    # existing file is opened, and no other thread can open the new one until it has been closed.
    with _creating:
        if not path.exists():
            with suppress(FileExistsError):  # another process has created it
                target = os.path.realpath(path)  # O_EXCL fails on a link
                descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                try:
                    _set_mode(descriptor)
                finally:
                    os.close(descriptor)


def _set_mode(descriptor: int) -> None:
    """Set the mode to 600: the umask may have removed the owner's own access."""
    if hasattr(os, "fchmod"):  # Windows has no modes
        with suppress(PermissionError):  # some file systems have none, either
            os.fchmod(descriptor, 0o600)
