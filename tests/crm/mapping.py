"""The mapping of `crm.schema`, from the models instead of their names."""

from crm.models import Mail, Membership, Person, Send
from hookrow import Role, Schema

SCHEMA = Schema(
    subscribers=Role.of(
        Person,
        email=Person.address,
        suppressed_at=Person.muted_at,
        suppression_reason=Person.mute_reason,
        suppression_changed_at=Person.mute_changed,
    ),
    dispatches=Role.of(
        Send,
        provider_message_id=Send.postmark_id,
        subscriber_id=Send.person,
        message_id=Send.mail,
        delivered_at=Send.arrived,
        opened_at=Send.seen,
        suppressed_at=Send.muted_at,
        suppression_reason=Send.mute_reason,
        suppression_changed_at=Send.mute_changed,
    ),
    messages=Role.of(Mail, list_id=Mail.group),
    subscriptions=Role.of(
        Membership,
        list_id=Membership.group,
        subscriber_id="person_id",
        suppressed_at=Membership.muted_at,
        suppression_reason=Membership.mute_reason,
        suppression_changed_at=Membership.mute_changed,
    ),
)
