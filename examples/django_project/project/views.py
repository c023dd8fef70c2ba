"""The views of the newsletter, which save a dispatch and show its times."""

from django.contrib.auth.decorators import login_not_required
from django.db.models import Value
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_list_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from hookrow.django.fields import Folded
from hookrow.django.tables.models import Dispatch, Subscriber


@csrf_exempt
@login_not_required
@require_POST
def send(request: HttpRequest) -> HttpResponse:
    """Save the subscriber and the dispatch of a message."""
    email = request.GET["email"]
    same = Subscriber.objects.alias(folded=Folded("email")).filter(folded=Folded(Value(email)))
    subscriber = same.first() or Subscriber.objects.create(email=email)  # Ada@ is ada@
    Dispatch.objects.create(provider_message_id=request.GET["message_id"], subscriber=subscriber)
    return HttpResponse(status=201)


@login_not_required
def show(_: HttpRequest, message_id: str) -> JsonResponse:
    """Return when a message was delivered and opened."""
    sent = get_list_or_404(Dispatch, provider_message_id=message_id)[0]
    return JsonResponse({"delivered_at": sent.delivered_at, "opened_at": sent.opened_at})
