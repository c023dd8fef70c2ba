"""The base of the models whose tables hookrow's scripts create."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage
from django.db import models

_NOT_CREATED = {"models.W037", "models.W044"}
"""The ids of Django's warnings that a database has no partial indexes, or none of expressions."""


class ScriptedModel(models.Model):
    """A model of a table that the scripts create, with the indexes that each database has."""

    class Meta:
        abstract = True

    @classmethod
    def check(cls, **options: Any) -> list[CheckMessage]:  # noqa: ANN401 - passed on
        """Leave out Django's warnings that it would not create an index of the model."""
        return [each for each in super().check(**options) if each.id not in _NOT_CREATED]
