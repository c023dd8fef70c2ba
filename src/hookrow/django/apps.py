"""The Django app: the endpoint and the log."""

from __future__ import annotations

from django.apps import AppConfig


class HookrowConfig(AppConfig):
    """`INSTALLED_APPS += ["hookrow.django"]`."""

    name = "hookrow.django"
    label = "hookrow"
    verbose_name = "Hookrow"
    default_auto_field = "django.db.models.BigAutoField"
