"""Readiness in a project: `path("readyz", include("hookrow.django.readiness"))`.

It responds as `hookrow serve` does at /readyz: with 200 and "ready" if a notification would be
recorded, otherwise with 503 and the fault. Nobody needs to log in.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt

from hookrow._diagnostics.readiness import ReadinessHandler
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._http import RETRY_LATER, Request
from hookrow._receiver.receiver import Receiver
from hookrow.django._receiver import receiver
from hookrow.django._status import status_source
from hookrow.django._views import NOT_CONFIGURED, django_response, head_of, outside_transactions
from hookrow.errors import ConfigurationError

logger: logging.Logger = logging.getLogger("hookrow")

app_name = "hookrow-readiness"


@outside_transactions
@csrf_exempt
@login_not_required
def _respond(request: HttpRequest) -> HttpResponse:
    """Respond with the last result while it is valid, otherwise with that of a new check."""
    head = head_of(request, request.path)
    try:
        handler = _handler(receiver())
    except ConfigurationError as error:
        logger.error(NOT_CONFIGURED, error)
        return django_response(RETRY_LATER, head)
    return django_response(handler(Request(head, b"")), head)


urlpatterns: list[URLPattern] = [path("", _respond, name="readiness")]


@lru_cache(maxsize=1)
def _handler(receiver: Receiver) -> ReadinessHandler:
    return ReadinessHandler(_status(receiver), can_spool=receiver.can_spool)


@lru_cache(maxsize=1)
def _status(receiver: Receiver) -> StatusReader:
    source = status_source(receiver.store, receiver.entries, receiver=lambda: receiver)
    return StatusReader(source)
