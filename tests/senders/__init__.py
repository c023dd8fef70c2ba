"""The requests of every built-in provider, which are signed without hookrow.

`hookrow.testing.WebhookSender` signs requests, too, by code that its verification shares, so it
would not find a mistake in both. `unit/test_webhook_sender.py` shows that the two sign alike.
"""

from collections.abc import Mapping

from senders import amazon_ses, brevo, mailgun, mailjet, mandrill, postmark, resend, sendgrid
from senders.sender import Sender

SENDERS: Mapping[str, Sender] = {
    "postmark": postmark.SENDER,
    "resend": resend.SENDER,
    "amazon_ses": amazon_ses.SENDER,
    "sendgrid": sendgrid.SENDER,
    "mandrill": mandrill.SENDER,
    "mailjet": mailjet.SENDER,
    "mailgun": mailgun.SENDER,
    "brevo": brevo.SENDER,
}
"""By the name of the provider."""
