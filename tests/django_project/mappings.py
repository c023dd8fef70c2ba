"""The contract of a mapping as `manage.py test` runs it: for our models and for those of `crm`."""

from __future__ import annotations

from uuid import uuid4

from django.test import TestCase, override_settings

from crm.models import Group, Mail, Membership, Person, Send
from crm.schema import CRM
from hookrow.django import store
from hookrow.django.tables.models import Dispatch, List, Subscriber, Subscription
from hookrow.notification import Key
from hookrow.testing import StoreContract
from wire import SECRET


class OurModels(StoreContract, TestCase):
    """The four tables."""

    def setUp(self) -> None:
        """Take the store that the settings describe."""
        self.store = store()

    def add_subscriber(self, email: str, /) -> Key:
        """Save one."""
        return Subscriber.objects.create(email=email).id

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None, /) -> Key:
        """Save one."""
        keys = {"subscriber_id": subscriber, "list_id": list_}
        return Dispatch.objects.create(provider_message_id=message_id, **keys).id

    def add_list(self) -> Key:
        """Save one."""
        return List.objects.create(name="news").id

    def add_subscription(self, list_: Key, subscriber: Key, /) -> None:
        """Save one."""
        Subscription.objects.create(list_id=list_, subscriber_id=subscriber)


@override_settings(HOOKROW={"SECRET": SECRET, "TABLES": CRM})
class ModelsOfAHost(OurModels):
    """All under other names, and a dispatch's list is that of its mail."""

    def add_subscriber(self, email: str, /) -> Key:
        """Save one."""
        key = uuid4()
        Person.objects.create(uid=key, address=email)
        return key

    def add_dispatch(self, message_id: str | None, subscriber: Key, list_: Key | None, /) -> Key:
        """Save one, of a mail of its own."""
        mail = Mail.objects.create(uid=uuid4(), group_id=list_)
        key = uuid4()
        Send.objects.create(key=key, postmark_id=message_id, person_id=subscriber, mail=mail)
        return key

    def add_list(self) -> Key:
        """Save one."""
        key = uuid4()
        Group.objects.create(uid=key)
        return key

    def add_subscription(self, list_: Key, subscriber: Key, /) -> None:
        """Save one."""
        Membership.objects.create(group_id=list_, person_id=subscriber)
