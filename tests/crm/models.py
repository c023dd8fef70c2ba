"""People, the mails that are sent to them, and the members of groups.

All names in `Person`, `Send` and `Membership` differ from those in hookrow's tables, and the group
of a send is that of its mail. `Customer` and `Receipt` have flags in place of times. `Guest`,
`Parcel` and `Stay` have an empty string for no reason, and `Parcel` has the provider's message id
as a UUID.
"""

# The models are written like those of a project without type annotations.
# mypy: disable-error-code="var-annotated"
# ruff: noqa: DJ001, DJ008

from django.db import models


class Reason(models.IntegerChoices):
    BOUNCE = 1
    OTHER = 9


class Group(models.Model):
    uid = models.UUIDField(primary_key=True)


class Team(models.Model):
    uid = models.UUIDField(primary_key=True)


class Person(models.Model):
    uid = models.UUIDField(primary_key=True)
    address = models.EmailField(max_length=320)
    muted_at = models.DateTimeField(null=True)
    mute_reason = models.TextField(null=True)
    mute_word = models.CharField(max_length=12, null=True)
    mute_code = models.SmallIntegerField(null=True, choices=Reason.choices)
    mute_changed = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    updated = models.DateTimeField(null=True, auto_now=True)
    team = models.ForeignKey(Team, models.PROTECT, null=True, db_constraint=False)
    groups = models.ManyToManyField(Group, through="Membership")
    friends = models.ManyToManyField("self")


class Patron(Person):
    since = models.DateTimeField(null=True)


class Mail(models.Model):
    uid = models.UUIDField(primary_key=True)
    group = models.ForeignKey(Group, models.PROTECT, db_constraint=False)


class Send(models.Model):
    key = models.UUIDField(primary_key=True)
    postmark_id = models.TextField(null=True)
    person = models.ForeignKey(Person, models.PROTECT, null=True, db_constraint=False)
    mail = models.ForeignKey(Mail, models.PROTECT, null=True, db_constraint=False)
    team = models.ForeignKey(Team, models.PROTECT, null=True, db_constraint=False)
    arrived = models.DateTimeField(null=True)
    seen = models.DateTimeField(null=True)
    updated = models.DateTimeField(null=True, auto_now=True)
    muted_at = models.DateTimeField(null=True)
    mute_reason = models.TextField(null=True)
    mute_changed = models.DateTimeField(null=True)


class Membership(models.Model):
    pk = models.CompositePrimaryKey("group", "person")
    group = models.ForeignKey(Group, models.PROTECT, db_constraint=False)
    person = models.ForeignKey(Person, models.PROTECT, db_constraint=False)
    muted_at = models.DateTimeField(null=True)
    mute_reason = models.TextField(null=True)
    mute_changed = models.DateTimeField(null=True)


class Customer(models.Model):
    uid = models.UUIDField(primary_key=True)
    email = models.EmailField(max_length=320)
    is_muted = models.BooleanField(default=False)
    mute_reason = models.TextField(null=True)


class Receipt(models.Model):
    uid = models.UUIDField(primary_key=True)
    postmark_id = models.TextField(null=True)
    customer = models.ForeignKey(Customer, models.PROTECT, null=True, db_constraint=False)
    has_arrived = models.BooleanField(default=False)
    was_seen = models.BooleanField(null=True)


class Guest(models.Model):
    id = models.IntegerField(primary_key=True)
    email = models.TextField()
    suppressed_at = models.DateTimeField(null=True)
    suppression_reason = models.TextField(blank=True)

    class Meta:
        """Names the table."""

        db_table = "guests"


class Parcel(models.Model):
    id = models.IntegerField(primary_key=True)
    message_id = models.UUIDField(null=True)
    subscriber_id = models.IntegerField()
    list_id = models.IntegerField(null=True)
    sent_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(null=True)

    class Meta:
        """Names the table."""

        db_table = "parcels"


class Stay(models.Model):
    pk = models.CompositePrimaryKey("list_id", "subscriber_id")
    list_id = models.IntegerField()
    subscriber_id = models.IntegerField()
    suppressed_at = models.DateTimeField(null=True)
    suppression_reason = models.TextField(blank=True)

    class Meta:
        """Names the table."""

        db_table = "stays"
