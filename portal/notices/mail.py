"""A mail of notices: text and plain HTML, in the reader's language and time zone."""

import hashlib
from email.utils import parseaddr
from typing import Any

from django.core.mail import EmailMultiAlternatives
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.notices.models import Notice, NoticeMail
from portal.notices.reader import in_reader_terms
from portal.notices.sentences import Digest, digest
from portal.notices.unsubscribing import stop_token


def notice_mail(
    mail: NoticeMail, notices: QuerySet[Notice], *, sender: str, base_url: str
) -> EmailMultiAlternatives | None:
    """The mail, ready to be sent; None if nothing in it is worth one any more. What is sent again
    has the same Message-ID, by which most readers show it once."""
    reader = mail.recipient
    with in_reader_terms(reader):
        found = digest(notices, base_url)
        if found is None and not mail.is_test:
            return None
        headline = found.headline if found else _("Test notice from Tessera")
        context = _context(reader, found, mail.is_test, base_url)
        text = render_to_string("notices/mail.txt", context)
        html = render_to_string("notices/mail.html", context)
    message = EmailMultiAlternatives(
        " ".join(headline.split()), text, sender, [reader.email], headers=_headers(mail, sender)
    )
    if base_url:
        message.extra_headers |= {
            "List-Unsubscribe": f"<{context['stop_href']}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }
    message.attach_alternative(html, "text/html")
    return message


def _context(reader: User, found: Digest | None, is_test: bool, base_url: str) -> dict[str, Any]:
    return {
        "reader": reader.get_full_name() or reader.username,
        "language": translation.get_language(),
        "lines": found.lines if found else [],
        "hidden": found.hidden if found else 0,
        "is_test": is_test,
        "settings_href": f"{base_url}/account/notices/" if base_url else "",
        "stop_href": f"{base_url}/notices/stop/{stop_token(reader)}/" if base_url else "",
    }


def _headers(mail: NoticeMail, sender: str) -> dict[str, str]:
    host = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    name = hashlib.sha256(f"{mail.pk} {mail.created_at.isoformat()}".encode()).hexdigest()[:24]
    return {
        "Message-ID": f"<notice-{name}@{host}>",
        "Date": f"{timezone.localtime(mail.created_at):%a, %d %b %Y %H:%M:%S %z}",
        # No answer by a machine that is away, and none to it.
        "Auto-Submitted": "auto-generated",
    }
