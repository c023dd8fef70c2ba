"""The endpoints of webhooks (https://postmarkapp.com/developer/api/webhooks-api)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from stand_in import posts
from stand_in.routes import Call, Refused, stream_of
from stand_in.state import Post, State, Trigger, Webhook

MOST_WEBHOOKS = 10
"""The largest number of webhooks of a stream."""

PERIOD = timedelta(days=1)
"""The period of the statistics."""


class VerificationFailed(Refused):
    """The response to a change whose tests failed."""

    def __init__(self, results: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(1364, "")
        self.body = _verification(results)


def list_webhooks(state: State, call: Call) -> Mapping[str, Any]:
    """Return the webhooks of a stream, or of all."""
    stream = call.query.get("messagestream")
    if stream is not None:
        stream_of(state, stream)
    found = [each for each in state.webhooks.values() if stream in {None, each.stream}]
    return {"Webhooks": [_as_json(each) for each in found]}


def get_webhook(state: State, call: Call) -> Mapping[str, Any]:
    """Return a webhook."""
    return _as_json(_find(state, call))


def create_webhook(state: State, call: Call) -> Mapping[str, Any]:
    """Verify and save a new webhook."""
    name = str(call.body.get("MessageStream", "outbound"))
    stream = stream_of(state, name)
    if stream.archived_at is not None:
        raise Refused(1350, "You cannot create a webhook using an archived 'MessageStream'.")
    if stream.kind == "Inbound":
        raise Refused(1351, "You cannot create a webhook using an inbound 'MessageStream'.")
    with state.lock:
        count = sum(each.stream == name for each in state.webhooks.values())
    if count >= MOST_WEBHOOKS:
        raise Refused(1359, "You have reached the maximum number of webhooks for this stream.")
    return _save(state, Webhook(0, "", name), call.body)


def edit_webhook(state: State, call: Call) -> Mapping[str, Any]:
    """Verify and save a change; fields that are not given keep their values."""
    webhook = _find(state, call)
    return _save(state, webhook, {"Url": webhook.url, **call.body})


def delete_webhook(state: State, call: Call) -> Mapping[str, Any]:
    """Delete a webhook."""
    with state.lock:
        del state.webhooks[_find(state, call).id]
    return {"ErrorCode": 0, "Message": f"Webhook {call.parts[0]} removed."}


def verify_webhook(state: State, call: Call) -> Mapping[str, Any]:
    """Test all enabled triggers; those that pass receive events."""
    webhook = _find(state, call)
    results = posts.verify(state, webhook)
    with state.lock:
        _set_verified(webhook, results)
    return _verification(results)


def webhook_statistics(state: State, call: Call) -> Mapping[str, Any]:
    """Return the statistics of the last 24 hours of the stand-in's clock."""
    webhook = _find(state, call)
    with state.lock:
        recent = [each for each in webhook.posts if each.at > state.now - PERIOD]
    return {
        "Statuses": {each: _status(webhook, each) for each in webhook.enabled},
        "MetricsByTrigger": {
            name: _metrics([each for each in recent if each.trigger is name])
            for name in webhook.enabled
        },
    }


def _save(state: State, webhook: Webhook, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Change a copy, verify it, and save it. Raises `Refused`."""
    url = body.get("Url")
    if not isinstance(url, str) or not re.match(r"https?://[^/\s]", url):
        raise Refused(1354, "The 'Url' is not valid.")
    stream, given = state.streams[webhook.stream], body.get("Triggers") or {}
    headers = body.get("HttpHeaders", webhook.headers) or ()
    triggers = dict(webhook.triggers)
    for name, wanted in given.items():
        if name not in {*Trigger} or (wanted.get("Enabled") and not stream.has(Trigger(name))):
            raise Refused(1353, "The webhook trigger is not supported on this message stream.")
        triggers[Trigger(name)] = {**triggers.get(Trigger(name), {}), **wanted}
    changed = replace(webhook, url=url, headers=tuple(headers), triggers=triggers)
    changed.auth = body.get("HttpAuth", webhook.auth)
    changed.verified = set()
    if body.get("Verify", True):
        results = posts.verify(state, changed)
        if not all(each["Success"] for each in results):
            raise VerificationFailed(results)
        _set_verified(changed, results)
    with state.lock:
        if not webhook.id:
            changed.id = 1_000_000 + state.number()
        state.webhooks[changed.id] = changed
    return _as_json(changed)


def _set_verified(webhook: Webhook, results: Sequence[Mapping[str, Any]]) -> None:
    webhook.verified = {Trigger(each["TriggerType"]) for each in results if each["Success"]}
    webhook.failures.clear()


def _verification(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    passed = sum(each["Success"] for each in results)
    return {
        "Success": passed == len(results),
        "Results": results,
        "Message": f"{passed}/{len(results)} triggers verified successfully",
    }


def _find(state: State, call: Call) -> Webhook:
    with state.lock:
        webhook = state.webhooks.get(int(call.parts[0]))
    if webhook is None:
        raise Refused(1352, "The webhook for the provided 'ID' was not found.")
    return webhook


def _status(webhook: Webhook, trigger: Trigger) -> str:
    return "verified" if trigger in webhook.verified else "unverified"


def _as_json(webhook: Webhook) -> Mapping[str, Any]:
    paused = [each for each in webhook.enabled if each not in webhook.verified]
    return {
        "ID": webhook.id,
        "Url": webhook.url,
        "MessageStream": webhook.stream,
        "Status": "unverified" if paused else "verified",
        "HttpAuth": webhook.auth,
        "HttpHeaders": list(webhook.headers),
        "Triggers": {
            each.value: {
                **_DEFAULTS.get(each, {"Enabled": False}),
                **webhook.triggers.get(each, {}),
            }
            for each in Trigger
        },
    }


_DEFAULTS: Mapping[Trigger, Mapping[str, bool]] = {
    Trigger.OPEN: {"Enabled": False, "PostFirstOpenOnly": False},
    Trigger.BOUNCE: {"Enabled": False, "IncludeContent": False},
    Trigger.COMPLAINT: {"Enabled": False, "IncludeContent": False},
}


def _metrics(made: Sequence[Post]) -> Mapping[str, Any]:
    final = [each for each in made if each.final]
    good = sum(HTTPStatus.OK <= each.status < HTTPStatus.MULTIPLE_CHOICES for each in final)
    return {
        "TotalRequests": len(final),
        "SuccessCount": good,
        "FailureCount": len(final) - good,
        "RetryCount": len(made) - len(final),
    }
