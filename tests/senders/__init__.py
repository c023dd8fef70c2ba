"""The requests of every built-in provider, which are signed without hookrow."""

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
