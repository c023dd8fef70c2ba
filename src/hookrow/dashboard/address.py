"""The address of a request: which page it names, and how the links of that page begin."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from hookrow.http import RequestHead


class Address(NamedTuple):
    """The name of a page or file, and the URL of the dashboard relative to the request's.

    A trailing slash changes only the relative URL. The name is None if the path is not below the
    mount path.
    """

    name: str | None
    base: str

    @classmethod
    def of(cls, head: RequestHead, mount: str) -> Address:
        """Return the address of a request to a dashboard with this mount path."""
        path = _path_below_mount(head, mount)
        if path is None:
            return cls(None, "./")
        if not path and (last := head.path.rpartition("/")[2]):
            return cls("", f"./{quote(last)}/")
        return cls(path.strip("/"), "../" * (path.count("/") - 1) or "./")


def _path_below_mount(head: RequestHead, mount: str) -> str | None:
    """Return the rest of the path below the mount, or None if the path is not below it.

    Behind a proxy, sometimes only the end of the root is a prefix of the path (FastAPI's
    `root_path`). A host that has removed the mount path may still report it as its root.
    """
    parts = [] if mount else head.root.rstrip("/").split("/")[1:]
    roots = ("/" + "/".join(parts[n:]) for n in range(len(parts)))
    for prefix in [mount] if mount else roots:
        if f"{head.path}/".startswith(f"{prefix}/"):
            return head.path.removeprefix(prefix)
    return None if mount else head.path
