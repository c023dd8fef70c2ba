"""The Django app of the four tables."""

from __future__ import annotations

from django.apps import AppConfig


class TablesConfig(AppConfig):
    """The app in `INSTALLED_APPS`: "hookrow.django.tables", in addition to "hookrow.django"."""

    name = "hookrow.django.tables"
    label = "hookrow_tables"
    verbose_name: str = "Hookrow: mail"
    default_auto_field: str = "django.db.models.BigAutoField"
