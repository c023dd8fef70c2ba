"""Times in fields of the host's: what they are given, and what they tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import Field
from django.utils.timezone import get_default_timezone, is_naive, make_aware, make_naive

from hookrow.django.fields import UTCDateTimeField


def given(value: Any, field: Field[Any, Any]) -> Any:  # noqa: ANN401 - a time, or what else a field takes
    """Return what the field takes: without USE_TZ a host's own takes the clock of TIME_ZONE."""
    if not isinstance(value, datetime) or settings.USE_TZ or isinstance(field, UTCDateTimeField):
        return value
    return make_naive(value, get_default_timezone())


def told(value: Any) -> Any:  # noqa: ANN401 - as above
    """Return what a field told, a time in UTC."""
    if not isinstance(value, datetime):
        return value
    aware = make_aware(value, get_default_timezone()) if is_naive(value) else value
    return aware.astimezone(UTC)
