"""The admin of the project's own model of subscribers, with manual suppression."""

from django.contrib import admin

from crm.models import Person
from hookrow.django._suppression import SuppressionAdmin


@admin.register(Person)
class PersonAdmin(SuppressionAdmin):
    list_display = ("address", "muted_at", "mute_reason")
