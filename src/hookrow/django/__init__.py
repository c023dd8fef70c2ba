"""hookrow in a Django project: `path("mail/", include("hookrow.django.urls"))`."""

from __future__ import annotations

from hookrow.errors import MissingExtra

try:
    from hookrow.django._receiver import receiver, store
except ModuleNotFoundError as _error:
    if (_error.name or "").partition(".")[0] != "django":
        raise
    raise MissingExtra("A Django project", "django") from _error

__all__ = ["receiver", "store"]
