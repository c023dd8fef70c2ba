"""The Django app of the endpoint and the log."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register


class HookrowConfig(AppConfig):
    """The app in `INSTALLED_APPS`: "hookrow.django"."""

    name = "hookrow.django"
    label = "hookrow"
    verbose_name: str = "Hookrow"
    default_auto_field: str = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks. The receiver is built by the first request."""
        from hookrow.django._checks import check, check_deployment  # noqa: PLC0415 - needs the models

        register(check, "hookrow")
        # Another process may sweep: this is not worth a warning at each start of `runserver`.
        register(check_deployment, "hookrow", deploy=True)
