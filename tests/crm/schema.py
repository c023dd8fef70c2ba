"""The mapping of the models to hookrow's roles."""

from hookrow import Role, Schema

MUTED = {
    "suppressed_at": "muted_at",
    "suppression_reason": "mute_reason",
    "suppression_changed_at": "mute_changed",
}
CRM = Schema(
    subscribers=Role("crm.Person", {"email": "address", **MUTED}),
    dispatches=Role(
        "crm.Send",
        {
            "provider_message_id": "postmark_id",
            "subscriber_id": "person",
            "list_id": "mail__group",
            "delivered_at": "arrived",
            "opened_at": "seen",
            **MUTED,
        },
    ),
    subscriptions=Role(
        "crm.Membership", {"list_id": "group", "subscriber_id": "person_id", **MUTED}
    ),
)
"""All models and fields have other names, and the list of a dispatch is that of its mail."""
