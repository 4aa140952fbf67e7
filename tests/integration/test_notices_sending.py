"""Mails through a real SMTP server that is away, hangs or refuses: again until it takes them, and
given up where it never will. A job's `notify` is honoured."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from portal.accounts.models import Membership
from portal.errors import Refused
from portal.notices import dispatch
from portal.notices.mail_problems import MailProblem
from portal.notices.models import NoticeMail
from portal.notices.services import mails_stop, notice_test_send
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
    assert (row.status, row.tries) == ("waiting", 1) and row.problem == MailProblem.NO_ANSWER
    send(timezone.now())
    assert sink.mails == []
    send(timezone.now() + timedelta(minutes=1))
    assert len(sink.mails) == 1
    assert NoticeMail.objects.get().status == "delivered"


@pytest.mark.parametrize(
    ("answer", "status", "problem"),
    [
        ("550 no such mailbox", "failed", MailProblem.ADDRESS_REFUSED),
        ("451 try later", "waiting", MailProblem.NOT_TAKEN),
    ],
)
def test_an_address_that_is_refused_for_good_is_given_up(
    alice, vision, sink, answer, status, problem
):
    sink.refusals.append(answer)
    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    row = NoticeMail.objects.get()
    assert (row.status, row.problem) == (status, problem)
    assert sink.mails == []


def test_a_server_that_hangs_is_asked_once_a_round_and_the_page_says_when_again(alice, client):
    """It takes the call and never says a word."""
    bob = a_user("bob", email="bob@example.org")
    for user in (alice, bob):
        notice_test_send(user=user)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        override_settings(
            EMAIL_BACKEND=SMTP,
            EMAIL_HOST="127.0.0.1",
            EMAIL_PORT=silent.getsockname()[1],
            EMAIL_TIMEOUT=0.2,
        ),
    ):
        send(timezone.now())
    rows = NoticeMail.objects.order_by("id")
    assert [(row.status, row.tries) for row in rows] == [("waiting", 1), ("waiting", 0)]
    client.force_login(alice)
    page = client.get("/account/notices/").content.decode()
    assert "The mail server does not answer. The next try is <time" in page


def test_an_address_that_is_none_holds_up_no_other_mail(alice, sink):
    eve = a_user("eve", email="eve@x\nBcc: all@example.org")
    for user in (eve, alice):
        notice_test_send(user=user)
    send(timezone.now())
    rows = {row.recipient.username: row for row in NoticeMail.objects.select_related("recipient")}
    assert rows["eve"].status == "failed"
    assert rows["eve"].problem == MailProblem.ADDRESS_UNREADABLE
    assert rows["alice"].status == "delivered" and len(sink.mails) == 1


def test_a_mail_that_ends_its_worker_each_time_is_given_up(alice, sink, monkeypatch):
    """As by the time limit of the task: nothing is recorded after the claim."""
    notice_test_send(user=alice)
    monkeypatch.setattr(dispatch, "_send", lambda *_: None)
    for minutes in range(0, 20, 2):
        send(timezone.now() + timedelta(minutes=minutes))
    row = NoticeMail.objects.get()
    assert (row.status, row.tries, row.problem) == ("failed", 7, MailProblem.CUT_OFF)


def test_who_leaves_the_project_while_the_server_is_away_is_not_mailed(alice, vision, sink):
    end(a_job(alice, vision), JobStatus.FAILED)
    with override_settings(EMAIL_PORT=free_port()):
        tell()
    Membership.objects.all().delete()
    send(timezone.now() + timedelta(minutes=1))
    assert sink.mails == [] and not NoticeMail.objects.exists()


def test_notify_of_a_request_is_honoured_whatever_the_settings_are(alice, vision, sink):
    mails_stop(user=alice)
    quiet, asks = a_job(alice, vision), a_job(alice, vision, name="asks", notify=["email"])
    for job in (quiet, asks):
        start(job, waited=timedelta(hours=1))
        end(job, JobStatus.SUCCEEDED)
    tell()
    (mail,) = sink.mails
    text = mail.get_body(("plain",)).get_content()
    assert f"{asks.label} asks has started after 60 minutes of waiting" in text
    assert f"{asks.label} asks succeeded" in text
    assert f"{quiet.label} " not in text


def test_a_webhook_that_nobody_has_is_refused_at_the_submit(alice, vision):
    with pytest.raises(Refused) as refused:
        a_job(alice, vision, notify=["webhook:team"])
    assert refused.value.field == "notify" and "no webhook named team" in refused.value.sentence
