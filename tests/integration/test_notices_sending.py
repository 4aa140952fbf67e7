"""Mails through a real SMTP server: again until it takes them, and given up where it never will.
A job's `notify` is honoured."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from portal.errors import Refused
from portal.notices.models import NoticeMail
from portal.notices.services import mails_stop
from scheduler.core.model.states import JobStatus
from tests.environment.programs import free_port
from tests.support.noticed import end, send, start, tell
from tests.support.rows import a_job, a_node, a_project, a_user
from tests.support.sinks import MailSink

pytestmark = pytest.mark.django_db
SMTP = "django.core.mail.backends.smtp.EmailBackend"


@pytest.fixture
def sink() -> Iterator[MailSink]:
    with (
        MailSink() as found,
        override_settings(EMAIL_BACKEND=SMTP, EMAIL_HOST="127.0.0.1", EMAIL_PORT=found.port),
    ):
        yield found


@pytest.fixture
def alice():
    a_node("n1")
    return a_user("alice", email="alice@example.org")


@pytest.fixture
def vision(alice):
    found = a_project("vision", alice)
    tell()
    return found


def test_a_mail_arrives_as_text_and_html_with_what_programs_need(alice, vision, sink):
    end(a_job(alice, vision, name="train"), JobStatus.FAILED)
    tell()
    (mail,) = sink.mails
    assert mail["To"] == "alice@example.org" and mail["From"] == "tessera@example.org"
    assert mail["Subject"].endswith(" train failed")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@example.org>")
    kinds = [part.get_content_type() for part in mail.walk()]
    assert kinds == ["multipart/alternative", "text/plain", "text/html"]
    assert "train failed" in mail.get_body(("plain",)).get_content()
    row = NoticeMail.objects.get()
    assert (row.status, row.tries) == ("delivered", 1) and row.sent_at


def test_a_server_that_is_away_is_tried_again_with_the_same_mail(alice, vision, sink):
    end(a_job(alice, vision), JobStatus.FAILED)
    with override_settings(EMAIL_PORT=free_port()):
        tell()
    row = NoticeMail.objects.get()
    assert (row.status, row.tries) == ("waiting", 1) and "ConnectionRefusedError" in row.problem
    send(timezone.now())
    assert sink.mails == []
    send(timezone.now() + timedelta(minutes=1))
    assert len(sink.mails) == 1
    assert NoticeMail.objects.get().status == "delivered"


@pytest.mark.parametrize(
    ("answer", "status"), [("550 no such mailbox", "failed"), ("451 try later", "waiting")]
)
def test_an_address_that_is_refused_for_good_is_given_up(alice, vision, sink, answer, status):
    sink.refusals.append(answer)
    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    row = NoticeMail.objects.get()
    assert row.status == status and "SMTPRecipientsRefused" in row.problem
    assert sink.mails == []


def test_notify_of_a_request_is_honoured_whatever_the_settings_are(alice, vision, sink):
    mails_stop(user=alice)
    quiet, told = a_job(alice, vision), a_job(alice, vision, name="told", notify=["email"])
    for job in (quiet, told):
        start(job, waited=timedelta(hours=1))
        end(job, JobStatus.SUCCEEDED)
    tell()
    (mail,) = sink.mails
    text = mail.get_body(("plain",)).get_content()
    assert f"{told.label} told has started after 60 minutes of waiting" in text
    assert f"{told.label} told succeeded" in text
    assert f"{quiet.label} " not in text


def test_a_webhook_that_nobody_has_is_refused_at_the_submit(alice, vision):
    with pytest.raises(Refused) as refused:
        a_job(alice, vision, notify=["webhook:team"])
    assert refused.value.field == "notify" and "no webhook named team" in refused.value.sentence
