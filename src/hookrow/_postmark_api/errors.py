"""The errors of Postmark's API: their meanings, and whether to repeat the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from hookrow.errors import HookrowError

WRONG_TOKEN = 10
MAINTENANCE = 100
UNKNOWN_MESSAGE = 701
UNKNOWN_STREAM = 1226
VERIFICATION_FAILED = 1364
"""Codes of the API."""

MAX_RETRY_AFTER = 60
"""Seconds to which a longer `Retry-After` is shortened."""

_MAX_DIGITS = 9
"""Digits that suffice for any wait and any code; Python limits those that `int` accepts."""

_MEANINGS = {
    WRONG_TOKEN: "The provider rejected the token: set HOOKROW_PROVIDER_TOKEN, the token of the "
    "entry or the token file to the API token of the server (not of the account)",
    MAINTENANCE: "The provider's API is under maintenance: repeat the command later",
    UNKNOWN_STREAM: "The provider has no such message stream: correct --stream",
    1350: "The message stream is archived: restore it at the provider, or omit it",
    1351: "The message stream is for inbound mail, which has no such webhooks: omit it",
    1352: "The provider has no such webhook: it was deleted during the command",
    1353: "The message stream does not support one of the triggers",
    1354: "The provider rejected the URL of the webhook: correct --url",
    1359: "The message stream already has as many webhooks as the provider allows: delete one",
}
"""The meaning of each code of the API, with the remedy."""


class APIError(HookrowError):
    """A request to the provider's API failed.

    `code` is the API's code, or 0. After a `temporary` error, the request may be repeated, because
    the provider has certainly not changed anything; `wait` is in seconds, and 0 if the provider did
    not state it.
    """

    def __init__(
        self, message: str, code: int = 0, *, temporary: bool = False, wait: int = 0
    ) -> None:
        super().__init__(message)
        self.code, self.temporary, self.wait = code, temporary, wait


class Unconfirmed(APIError):
    """The provider may or may not have carried out a change."""


class TriggerResult(msgspec.Struct, frozen=True):
    """The result of the provider's test of one trigger; `status` is that of our response, or 0."""

    trigger: str = msgspec.field(name="TriggerType", default="")
    success: bool = msgspec.field(name="Success", default=False)
    status: int = msgspec.field(name="StatusCode", default=0)
    message: str = msgspec.field(name="Message", default="")


class Verification(msgspec.Struct, frozen=True):
    """The result of a verification."""

    success: bool = msgspec.field(name="Success", default=False)
    message: str = msgspec.field(name="Message", default="no message")
    results: Sequence[TriggerResult] = msgspec.field(name="Results", default=())


class VerificationFailed(APIError):
    """The endpoint did not respond with 200 to each test, so the provider changed nothing.

    `url` is the endpoint, if it is known.
    """

    url = ""

    def __init__(self, message: str, results: Sequence[TriggerResult]) -> None:
        super().__init__(message, VERIFICATION_FAILED)
        self.results = results


def error_of(status: int, fields: Mapping[str, str], body: object, *, changes: bool) -> APIError:
    """Return the error for a response that is not a 200 with an object in JSON.

    `fields` are those of the header, with names in lower case, and `body` is the decoded body, or
    None if it is not JSON; both are cleaned. `changes` is whether the request was to change
    something.
    """
    if isinstance(body, dict):
        code = WRONG_TOKEN if status == HTTPStatus.UNAUTHORIZED else _code(fields, body)
        described = f"status {status}, code {code}: {body.get('Message') or 'no message'}"
        if code == VERIFICATION_FAILED:
            results = verification_of(body).results
            return VerificationFailed(f"The verification failed ({described}).", results)
        text = f"{_MEANINGS.get(code, 'The provider returned an error')} ({described})."
    else:
        code = 0
        text = (
            f"The response of the provider's API is not a JSON object (status {status}, "
            f"{fields.get('content-type') or 'no Content-Type'}): correct HOOKROW_PROVIDER_API, or "
            "find out which proxy responded."
        )
    after = fields.get("retry-after") or ""
    wait = min(int(after[:_MAX_DIGITS]), MAX_RETRY_AFTER) if after.isdecimal() else 0
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        text = f"The provider is limiting requests: run the command again later. {text}"
        return APIError(text, code, temporary=True, wait=wait)
    if code == MAINTENANCE:
        return APIError(text, code, temporary=True, wait=wait)
    unclear = status >= HTTPStatus.INTERNAL_SERVER_ERROR or not isinstance(body, dict)
    if unclear and changes:
        return Unconfirmed(text, code)
    temporary = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return APIError(text, code, temporary=temporary, wait=wait)


def verification_of(body: Mapping[str, Any]) -> Verification:
    """Return the result in a cleaned body; an empty one if its fields are not those of the API."""
    try:
        return msgspec.convert(body, Verification)
    except msgspec.ValidationError:
        return Verification()


def unexpected(path: str) -> str:
    """Return the message for a response whose fields are not those of the API."""
    return (
        f"The response to {path} is not one of Postmark's API: is HOOKROW_PROVIDER_API right? If "
        "so, update hookrow."
    )


def _code(fields: Mapping[str, str], body: Mapping[str, Any]) -> int:
    if isinstance(code := body.get("ErrorCode"), int):
        return code
    header = fields.get("x-pm-apierrorcode") or ""
    return int(header[:_MAX_DIGITS]) if header.isdecimal() else 0
