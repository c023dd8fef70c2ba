"""The built-in providers by name, which are imported when they are first needed."""

from __future__ import annotations

from collections.abc import Collection
from pkgutil import resolve_name
from typing import cast

from hookrow._core.schema import nearest
from hookrow.errors import ConfigurationError
from hookrow.providers._built_in import BuiltIn

_CLASSES = {
    "postmark": "Postmark",
    "resend": "Resend",
    "amazon_ses": "AmazonSES",
    "sendgrid": "SendGrid",
    "mandrill": "Mandrill",
    "mailjet": "Mailjet",
    "mailgun": "Mailgun",
    "brevo": "Brevo",
}
"""The class of each provider by its name, which is also that of its module."""

PROVIDER_NAMES: Collection[str] = _CLASSES.keys()
"""The names of the built-in providers."""

_PATHS = {f"hookrow.providers.{module}.{class_}" for module, class_ in _CLASSES.items()}
"""The paths of their classes, which need not be imported."""


def is_built_in(provider: object) -> bool:
    """Return whether a provider, or the class of one, is built in: not a subclass of one that is.

    A subclass may override any method, also one that only others call.
    """
    class_ = provider if isinstance(provider, type) else type(provider)
    return f"{class_.__module__}.{class_.__qualname__}" in _PATHS


def built_in(name: str) -> type[BuiltIn]:
    """Return the class of a built-in provider.

    Raises `ConfigurationError` for another name, and `MissingExtra` if the provider needs a package
    that is not installed.
    """
    if name not in _CLASSES:
        raise ConfigurationError(
            f"There is no provider {name!r}.{nearest(name, PROVIDER_NAMES)} hookrow has these: "
            f"{', '.join(PROVIDER_NAMES)}."
        )
    return cast("type[BuiltIn]", resolve_name(f"hookrow.providers.{name}:{_CLASSES[name]}"))
