"""The project's own people in the admin, to be suppressed by hand there."""

from django.contrib import admin

from crm.models import Person
from hookrow.django.suppression import SuppressionAdmin


@admin.register(Person)
class PersonAdmin(SuppressionAdmin):
    list_display = ("address", "muted_at", "mute_reason")
