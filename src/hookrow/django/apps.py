"""The Django app: the endpoint and the log."""

from __future__ import annotations

from traceback import walk_stack

from django.apps import AppConfig
from django.core.checks import register
from django.core.management import ManagementUtility


class HookrowConfig(AppConfig):
    """`INSTALLED_APPS += ["hookrow.django"]`."""

    name = "hookrow.django"
    label = "hookrow"
    verbose_name = "Hookrow"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and refuse at once what a server could not work with.

        Not under `manage.py`: there the checks say it, and the commands have to run that
        mend it. No database is asked.
        """
        from hookrow.django.checks import check  # noqa: PLC0415 - the apps are there now
        from hookrow.django.receiving import receiver  # noqa: PLC0415 - as above

        register(check, "hookrow")
        if not _commanded():
            receiver()


def _commanded() -> bool:
    """Tell whether a management command has the apps loaded: nothing else of Django's says it."""
    command = ManagementUtility.execute.__code__
    return any(frame.f_code is command for frame, _ in walk_stack(None))
