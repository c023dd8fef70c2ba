"""The stand-in for Postmark's API is good enough for the vendor's own client."""

import asyncio
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

import postmark
import pytest
from postmark.exceptions import InvalidAPIKeyException, PostmarkAPIException

from loopback import loopback
from stand_in import PostmarkStandIn


def accept(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    start("200 OK", [("Content-Length", "0")])
    return []


async def use_webhooks(client: postmark.ServerClient, url: str) -> None:
    triggers = {"Delivery": {"Enabled": True}, "Open": {"Enabled": True}}
    created = await client.webhooks.create(
        url, "broadcast", http_headers=[{"Name": "X-Secret", "Value": "a"}], triggers=triggers
    )
    assert (created.url, created.message_stream) == (url, "broadcast")
    assert created.triggers.delivery.enabled
    assert not created.triggers.subscription_change.enabled
    assert [each.id for each in await client.webhooks.list("broadcast")] == [created.id]
    assert await client.webhooks.list("outbound") == []
    edited = await client.webhooks.edit(created.id, triggers={"Open": {"Enabled": False}})
    assert edited.triggers.delivery.enabled, "what is not given stays"
    assert not edited.triggers.open.enabled
    assert edited.http_headers == created.http_headers
    assert await client.webhooks.get(created.id) == edited
    with pytest.raises(PostmarkAPIException) as raised:
        await client.webhooks.edit(created.id, url="http://127.0.0.1:9/")
    assert raised.value.http_status == 422
    assert await client.webhooks.get(created.id) == edited, "the verification failed"
    assert (await client.webhooks.delete(created.id)).error_code == 0
    assert await client.webhooks.list() == []


async def use_suppressions(client: postmark.ServerClient) -> None:
    await client.suppressions.create("outbound", ["ada@example.com"])
    [listed] = await client.suppressions.dump("outbound")
    assert listed.email_address == "ada@example.com"
    assert listed.created_at.tzinfo is not None
    await client.suppressions.delete("outbound", ["ada@example.com"])
    assert await client.suppressions.dump("outbound") == []


def test_webhooks_and_suppressions() -> None:
    async def use(address: str, token: str, url: str) -> None:
        async with postmark.ServerClient(token, base_url=address) as client:
            await use_webhooks(client, url)
            await use_suppressions(client)
        async with postmark.ServerClient("wrong", base_url=address) as client:
            with pytest.raises(InvalidAPIKeyException):
                await client.webhooks.list()

    with loopback(accept) as port, PostmarkStandIn() as api:
        asyncio.run(use(api.address, api.token, f"http://127.0.0.1:{port}/"))
