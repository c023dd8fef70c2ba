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
    """Create an empty file with the mode 600, minus the umask, unless there is a file at the path.

    The mode of an existing file stays as it is. A symbolic link is followed. If the file becomes an
    SQLite database, its journals get its mode, because SQLite copies it. Raises `OSError`.
    """
    # Closing a descriptor releases all locks that the process has on the file. Therefore, no
    # existing file is opened, and no other thread can open the new one until it has been closed.
    with _creating:
        if not path.exists():
            with suppress(FileExistsError):  # another process has created it
                target = os.path.realpath(path)  # O_EXCL fails on a link
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
