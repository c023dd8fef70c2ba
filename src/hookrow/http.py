"""The messages of handlers: requests, as a host passes them, and the responses to them."""

from hookrow._http import Handler, Request, RequestHead, Response

__all__ = ["Handler", "Request", "RequestHead", "Response"]
