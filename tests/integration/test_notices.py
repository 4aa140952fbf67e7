"""People are mailed what they chose, once, in their language; a burst is one mail."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import Membership, Role
from portal.audit.models import Event
from portal.audit.transitions import advance
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job
from portal.notices import dispatch
from portal.notices.audience import audience_of_budgets
from portal.notices.dispatch import GATHER, PAUSE, notices_forget
from portal.notices.kinds import NoticeKind
from portal.notices.models import Notice, NoticeMail, NoticeSettings
from portal.notices.services import notice_settings_set, notice_test_send
from portal.notices.unsubscribing import stop_token
from portal.quotas.models import Budget
from scheduler.core.model.states import JobStatus, NodeStatus
from tests.support.held_time import lease
from tests.support.noticed import URL, end, send, start, tell
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def alice():
    a_node("n1")
    return a_user("alice", email="alice@example.org")


@pytest.fixture
def vision(alice):
    found = a_project("vision", alice)
    tell()  # what was before is not told
    return found


def subjects() -> list[str]:
    return [message.subject for message in mail.outbox]


# What happens to a job, and the kind of notice that it is.
def failed(job):
    end(job, JobStatus.FAILED)


def timed_out(job):
    end(job, JobStatus.TIMED_OUT)


def succeeded(job):
    end(job, JobStatus.SUCCEEDED)


def started_late(job):
    start(job, waited=HOUR)


def about_to_end(job):
    start(job, left=timedelta(minutes=10))


HAPPENINGS = [
    (failed, NoticeKind.FAILED),
    (timed_out, NoticeKind.FAILED),
    (succeeded, NoticeKind.ENDED),
    (started_late, NoticeKind.STARTED),
    (about_to_end, NoticeKind.ENDING),
]


@pytest.mark.parametrize(("happens", "kind"), HAPPENINGS)
@pytest.mark.parametrize("chosen", [None, [], *([str(kind)] for kind in NoticeKind)])
def test_matrix_of_settings(alice, vision, happens, kind, chosen):
    if chosen is not None:
        notice_settings_set(user=alice, kinds=chosen, wait_minutes=10, lead_minutes=15)
    happens(a_job(alice, vision, time_limit="4h"))
    tell()
    wanted = ["failed", "ending"] if chosen is None else chosen
    assert len(mail.outbox) == (str(kind) in wanted)


def test_a_mail_says_what_failed_with_the_cause_and_a_link(alice, vision):
    job = a_job(alice, vision, name="train")
    end(job, JobStatus.FAILED)
    job.reason = {"code": "failed", "sentence": "rank 0 ended with exit code 3"}
    job.save(update_fields=["reason"])
    tell()
    (message,) = mail.outbox
    assert message.subject == f"{job.label} train failed"
    assert message.to == ["alice@example.org"]
    html = message.alternatives[0][0]
    for text in (message.body, html):
        assert "rank 0 ended with exit code 3" in text
        assert f"{URL}/jobs/{job.label}/" in text
        assert f"{URL}/account/notices/" in text


def test_a_burst_is_one_mail_and_the_next_comes_after_a_pause(alice, vision):
    for _ in range(15):
        end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    tell()
    assert subjects() == ["15 jobs failed"]
    assert mail.outbox[0].body.count("failed") == 12 and "and 3 more" in mail.outbox[0].body

    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    assert len(mail.outbox) == 1
    send(timezone.now() + PAUSE + GATHER)
    assert len(mail.outbox) == 2
    assert not Notice.objects.filter(gathered_at=None).exists()


def test_a_burst_gathers_before_it_is_mailed(alice, vision):
    end(a_job(alice, vision), JobStatus.FAILED)
    tell(later=GATHER / 2)
    assert mail.outbox == []


def test_a_short_wait_and_an_own_cancel_are_not_told(alice, vision):
    every = [str(kind) for kind in NoticeKind]
    notice_settings_set(user=alice, kinds=every, wait_minutes=30, lead_minutes=15)
    start(a_job(alice, vision), waited=timedelta(minutes=29))
    end(a_job(alice, vision), JobStatus.CANCELLED, actor="alice")
    tell()
    assert mail.outbox == []
    end(a_job(alice, vision, name="gone"), JobStatus.CANCELLED, actor="admin")
    tell()
    assert "gone was cancelled by admin" in mail.outbox[0].subject


def test_an_end_is_told_once_and_again_after_an_extension(alice, vision):
    job = a_job(alice, vision, name="train", time_limit="4h")
    start(job, left=timedelta(minutes=10))
    tell()
    tell()
    assert len(mail.outbox) == 1 and "reaches its time limit at 20" in mail.outbox[0].subject
    job.deadline_at += timedelta(minutes=3)
    job.save(update_fields=["deadline_at"])
    Notice.objects.update(created_at=timezone.now() - HOUR)
    NoticeMail.objects.update(created_at=timezone.now() - HOUR)
    tell()
    assert len(mail.outbox) == 2


def test_a_job_that_ended_meanwhile_is_not_about_to_end(alice, vision):
    job = a_job(alice, vision, time_limit="4h")
    start(job, left=timedelta(minutes=10))
    tell(later=timedelta())
    end(job, JobStatus.SUCCEEDED)
    send(timezone.now() + GATHER)
    assert mail.outbox == [] and not NoticeMail.objects.exists(), "nothing was sent"


def test_a_limit_that_was_extended_meanwhile_is_not_told(alice, vision):
    job = a_job(alice, vision, time_limit="4h")
    start(job, left=timedelta(minutes=10))
    tell(later=timedelta())
    Job.objects.update(deadline_at=timezone.now() + 2 * HOUR)
    send(timezone.now() + GATHER)
    assert mail.outbox == []


def test_a_job_that_ran_before_has_waited_since_it_was_stopped(alice, vision):
    notice_settings_set(user=alice, kinds=["started"], wait_minutes=10, lead_minutes=15)
    job = a_job(alice, vision)
    start(job, waited=5 * HOUR)
    for status in (JobStatus.STOPPING, JobStatus.QUEUED):
        advance(job, status)
    Event.objects.filter(new=JobStatus.QUEUED, old=JobStatus.STOPPING).update(
        at=timezone.now() - timedelta(minutes=20)
    )
    start(job, waited=5 * HOUR)
    tell()
    (message,) = mail.outbox
    assert message.body.count("minutes of waiting") == 2
    assert "after 20 minutes of waiting" in message.body


def test_an_event_that_is_committed_late_is_told(alice, vision):
    """Its number is older than those that were read, as of a report that waited for a lock."""
    end(a_job(alice, vision), JobStatus.FAILED)
    late = Event.objects.get(new=JobStatus.FAILED)
    Event.objects.filter(pk=late.pk).delete()
    Event.objects.bulk_create(
        Event(id=late.pk + number, at=late.at, noun="slice", noun_id="1", actor="system")
        for number in range(1, 600)
    )
    tell()
    late.save(force_insert=True)
    tell()
    assert len(mail.outbox) == 1


def test_the_lead_is_at_most_a_quarter_of_the_limit(alice, vision):
    start(a_job(alice, vision, time_limit="20m"), left=timedelta(minutes=6))
    start(a_job(alice, vision, time_limit="9m"), left=timedelta(minutes=1))
    tell()
    assert mail.outbox == []


@pytest.mark.parametrize("away", ["project", "account", "address"])
def test_who_lost_the_project_the_account_or_the_address_is_told_nothing(alice, vision, away):
    end(a_job(alice, vision), JobStatus.FAILED)
    if away == "project":
        Membership.objects.all().delete()
    else:
        column = {"account": {"is_active": False}, "address": {"email": ""}}[away]
        type(alice).objects.filter(pk=alice.pk).update(**column)
    tell()
    assert mail.outbox == []


def test_others_of_the_project_are_not_mailed(alice, vision):
    bob = a_user("bob", email="bob@example.org")
    Membership.objects.create(project=vision, user=bob, role=Role.ADMIN)
    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    assert [message.to for message in mail.outbox] == [["alice@example.org"]]


def test_chinese(alice, vision):
    alice.language = "zh-hans"
    alice.save(update_fields=["language"])
    for _ in range(2):
        end(a_job(alice, vision, name="train"), JobStatus.FAILED)
    tell()
    assert subjects() == ["2 个作业失败"]
    assert "你好" in mail.outbox[0].body and "failed" not in mail.outbox[0].body


def test_a_time_limit_is_told_in_the_zone_of_the_account(alice, vision):
    alice.time_zone = "Asia/Shanghai"
    alice.save(update_fields=["time_zone"])
    job = a_job(alice, vision, time_limit="4h")
    start(job, left=timedelta(minutes=10))
    tell()
    at = job.deadline_at.astimezone(ZoneInfo("Asia/Shanghai"))
    assert f"at {at:%Y-%m-%d %H:%M} CST" in mail.outbox[0].subject


def test_the_diagnosis_of_a_failure_is_its_cause(alice, vision):
    job = a_job(alice, vision)
    end(job, JobStatus.FAILED)
    job.diagnosis = {"sentence": "CUDA ran out of memory", "said": None}
    job.save(update_fields=["diagnosis"])
    tell()
    assert "failed: CUDA ran out of memory" in mail.outbox[0].body


def test_names_of_users_are_no_markup_and_no_second_header(alice, vision):
    end(a_job(alice, vision, name="a-b"), JobStatus.FAILED)
    type(alice).objects.filter(pk=alice.pk).update(first_name="<b>Al\nBcc: x@example.org")
    tell()
    assert "<b>" not in mail.outbox[0].alternatives[0][0]
    assert mail.outbox[0].message().get_all("Bcc") is None


def test_a_project_admin_is_told_of_a_budget_once(alice, vision):
    Membership.objects.update(role=Role.ADMIN)
    notice_settings_set(user=alice, kinds=["budget"], wait_minutes=10, lead_minutes=15)
    now = timezone.now()
    Budget.objects.create(
        project=vision, limit_unit_seconds=1, starts_at=now - HOUR, ends_at=now + HOUR
    )
    lease(a_job(alice, vision), Gpu.objects.first(), now - HOUR, now)
    tell()
    tell()
    assert len(mail.outbox) == 1 and "of the budget of vision is used" in mail.outbox[0].subject


def test_a_budget_of_a_project_that_one_left_is_not_told(alice, vision):
    notice_settings_set(user=alice, kinds=["budget"], wait_minutes=10, lead_minutes=15)
    now = timezone.now()
    Budget.objects.create(
        project=vision, user=alice, limit_unit_seconds=1, starts_at=now - HOUR, ends_at=now + HOUR
    )
    lease(a_job(alice, vision), Gpu.objects.first(), now - HOUR, now)
    Membership.objects.all().delete()
    tell()
    assert mail.outbox == []


def test_the_people_of_many_budgets_are_read_at_once(django_assert_max_num_queries, alice):
    now = timezone.now()
    projects = [a_project(f"p{number}", alice, role=Role.ADMIN) for number in range(6)]
    rows = [
        Budget(project=project, limit_unit_seconds=1, starts_at=now - HOUR, ends_at=now + HOUR)
        for project in projects
    ]
    with django_assert_max_num_queries(3):
        audience = audience_of_budgets(rows)
    assert [user for row in rows for user in audience.people_of(row)] == [alice] * 6


def test_who_waits_longest_is_mailed_first_however_many_are_in_their_pause(monkeypatch, alice):
    monkeypatch.setattr(dispatch, "RECIPIENTS", 1)
    bob = a_user("bob", email="bob@example.org")
    shared = a_project("shared", alice, bob)
    tell()
    end(a_job(alice, shared), JobStatus.FAILED)
    tell()
    for user in (alice, bob):
        end(a_job(user, shared), JobStatus.FAILED)
    tell()
    assert [message.to[0] for message in mail.outbox] == ["alice@example.org", "bob@example.org"]


def test_a_platform_admin_is_told_of_a_lost_node_and_nobody_else(alice, vision):
    root = a_user("root", email="root@example.org", is_superuser=True)
    for user in (root, alice):
        notice_settings_set(user=user, kinds=["node"], wait_minutes=10, lead_minutes=15)
    advance(Node.objects.get(name="n1"), NodeStatus.LOST)
    tell()
    assert [message.to for message in mail.outbox] == [["root@example.org"]]
    assert mail.outbox[0].subject.startswith("n1: ")


def test_without_a_mail_server_nothing_piles_up_for_the_day_it_comes(alice, vision):
    end(a_job(alice, vision), JobStatus.FAILED)
    tell(mails=False)
    assert not Notice.objects.exists()


def test_old_notices_go_and_budgets_stay_known(alice, vision):
    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    notices_forget(timezone.now() + timedelta(days=29))
    assert Notice.objects.exists()
    notices_forget(timezone.now() + timedelta(days=31))
    assert not Notice.objects.exists() and not NoticeMail.objects.exists()


def test_the_link_in_a_mail_ends_mails_without_signing_in(alice, vision):
    anonymous = Client(enforce_csrf_checks=True)
    address = reverse("web:notices_stop", args=[stop_token(alice)])
    assert "Stop all mails to alice?" in anonymous.get(address).content.decode()
    assert not NoticeSettings.objects.exists()
    assert anonymous.post(address, {"List-Unsubscribe": "One-Click"}).status_code == 200
    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    assert mail.outbox == []
    forged = reverse("web:notices_stop", args=["MQ:1abc:forged"])
    assert anonymous.post(forged).status_code == 404


def test_a_mail_names_the_address_that_ends_mails_for_mail_programs(alice, vision):
    end(a_job(alice, vision), JobStatus.FAILED)
    tell()
    headers = mail.outbox[0].extra_headers
    assert headers["List-Unsubscribe"].startswith(f"<{URL}/notices/stop/")
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_the_page_saves_what_was_chosen_and_refuses_what_is_no_number(alice):
    client = Client()
    client.force_login(alice)
    page = reverse("web:notices")
    values = {"kind": ["ended", "node"], "wait_minutes": "5", "lead_minutes": "30"}
    assert client.post(page, values).status_code == 302
    row = NoticeSettings.objects.get()
    assert (row.kinds, row.wait_minutes, row.lead_minutes) == (["ended"], 5, 30)
    refused = client.post(page, values | {"lead_minutes": "soon"})
    assert refused.status_code == 400
    assert "Enter a number of minutes" in refused.content.decode()


def test_a_test_mail_is_sent_and_repeated_presses_are_one(alice):
    for _ in range(3):
        notice_test_send(user=alice)
    send(timezone.now())
    assert subjects() == ["Test notice from Tessera"]
    client = Client()
    client.force_login(alice)
    assert "sent" in client.get(reverse("web:notices")).content.decode()
