"""Requests with credentials, encoded without hookrow."""

from base64 import b64encode

from hookrow import Request, RequestHead
from wire import ENDPOINT


def basic(credentials: str, encoding: str = "utf-8") -> bytes:
    """Return the value of Authorization (RFC 7617)."""
    return b"Basic " + b64encode(credentials.encode(encoding))


def head_with(*values: bytes) -> RequestHead:
    """Return a head with these values of Authorization."""
    return RequestHead("POST", ENDPOINT, [(b"Authorization", each) for each in values])


def authorized(body: bytes, credentials: str) -> Request:
    return Request(head_with(basic(credentials)), body)
