"""The address of a request: which page it names, and how the links of that page begin."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from hookrow.http import RequestHead


class Address(NamedTuple):
    """The name of a page or file, and the URL of the dashboard relative to the request's.

    A trailing slash changes only the relative URL.
    """

    name: str
    base: str

    @classmethod
    def of(cls, head: RequestHead) -> Address:
        """Return the address of a request."""
        path = _path_below_root(head)
        if not path and (last := head.path.rpartition("/")[2]):
            return cls("", f"./{quote(last)}/")
        return cls(path.strip("/"), "../" * (path.count("/") - 1) or "./")


def _path_below_root(head: RequestHead) -> str:
    """Return the path without the root.

    Behind a proxy, sometimes only the end of the root is a prefix of the path (FastAPI's
    `root_path`). A host that has removed the mount path may still report it as its root.
    """
    parts = head.root.rstrip("/").split("/")[1:]
    for start in range(len(parts)):
        prefix = "/" + "/".join(parts[start:])
        if f"{head.path}/".startswith(f"{prefix}/"):
            return head.path.removeprefix(prefix)
    return head.path
