"""Posts the events of hookrow's providers, signed with a credential that is made for the tests."""

from __future__ import annotations

from hookrow._arguments import check_seconds
from hookrow._core.notification import Notification
from hookrow._http import Handler
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Provider
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers._registry import built_in
from hookrow.testing._client import TIMEOUT, call, send


class WebhookSender:
    """Composes the events of a provider of hookrow, and signs the requests with them.

    `name` is that of the provider in settings, such as "mailgun", and `options` are its other
    settings, such as `url` of Mandrill; a required one that is missing has an arbitrary value.

    `provider` accepts the requests of this sender, and no others: pass it to a receiver. An
    application that creates the provider itself needs `credential`, which is random: the signing
    key of Mailgun, the public key of SendGrid. Only with that of Amazon SES, a topic, it would ask
    Amazon for the certificate, and refuse the requests.

    Raises `ConfigurationError` for an unknown name, and `MissingExtra` for Amazon SES and SendGrid
    without the package `cryptography`.
    """

    provider: Provider
    credential: str
    hard_bounce: str
    """The type of a bounce after which the provider suppresses the address."""

    def __init__(self, name: str, **options: str | bool) -> None:
        self._provider: BuiltIn
        self.credential, self._provider = built_in(name).generate(**options)
        self.provider = self._provider
        self.hard_bounce = self._provider.hard_bounce

    def request(self, notification: Notification) -> ProviderRequest:
        """Return the headers and the body of the request with one event.

        The event has the fields of the provider's own. It may have other effects than the
        notification: a complaint at SendGrid suppresses, too. Its time has the provider's
        precision, which is a second or a millisecond.

        Raises `ConfigurationError` if the provider sends no such event: most report no
        reactivation, and each has its own types of bounces.
        """
        body = self._provider.compose(notification)
        if body is None:
            raise ConfigurationError(
                f"{self._provider.name} sends no event for {notification!r}: use another kind of "
                f"notification, the type {self.hard_bounce!r} for a bounce, one of the reasons "
                "HardBounce, SpamComplaint and ManualSuppression, and a time."
            )
        request = self._provider.sign(body)
        assert request is not None  # noqa: S101 - for mypy: the provider has its own key
        return request

    def post(
        self, target: str | Handler, notification: Notification, *, timeout: float = TIMEOUT
    ) -> tuple[int, str]:
        """Post a request; return the status and the text of the response.

        The target and `timeout` are as in `hookrow.testing.post`; the URL must end with the name of
        the entry, unless it is the first one. Raises what `request` and `hookrow.testing.post`
        raise.
        """
        check_seconds("timeout", timeout)
        headers, body = self.request(notification)
        if isinstance(target, str):
            return send(target, body, headers, timeout)
        return call(target, body, headers)
