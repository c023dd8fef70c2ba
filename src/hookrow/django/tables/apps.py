"""The Django app of the four tables."""

from __future__ import annotations

from django.apps import AppConfig


class TablesConfig(AppConfig):
    """`INSTALLED_APPS += ["hookrow.django.tables"]`, beside `hookrow.django`."""

    name = "hookrow.django.tables"
    label = "hookrow_tables"
    verbose_name = "Hookrow: mail"
    default_auto_field = "django.db.models.BigAutoField"
