"""The pages of the newsletter, of its admin, and the endpoint of hookrow."""

from django.contrib import admin
from django.urls import include, path

from project import views

urlpatterns = [
    path("mail/", include("hookrow.django.urls")),  # POST /mail/provider/webhooks
    path("dispatches", views.send),
    path("dispatches/<message_id>", views.show),
    path("admin/", admin.site.urls),
]
