"""Thousands of notices are told in rounds of a bounded size, each a task of its own: nothing is
lost or doubled, also where a worker dies between two batches."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import pytest
from django.conf import settings
from django.core import mail
from django.utils import timezone

from portal.accounts.models import User
from portal.audit import event_overlap
from portal.audit.models import Event
from portal.jobs.models import Job
from portal.live import bell
from portal.notices import collection, dispatch, tasks
from portal.notices.kinds import NoticeKind
from portal.notices.models import Notice, NoticeMail
from scheduler.core.model.states import JobStatus
from tests.support.noticed import send
from tests.support.rows import a_job, a_node, a_project, a_user

# A ring is sent when nothing that could still be rolled back is open.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rung(monkeypatch) -> list[str]:
    """The tasks of notices that were sent, and not done yet."""
    sent: list[str] = []

    def send_task(name: str, *arguments: str) -> bool:
        if name == bell.NOTICES_TASK:
            sent.append(name)
        return True

    monkeypatch.setattr(bell, "_send", send_task)
    monkeypatch.setattr(settings, "MAIL_IS_SET", True)
    monkeypatch.setattr(tasks, "ROUND_SECONDS", inf)
    # However long this takes, nothing is due by the clock, nor gathered meanwhile.
    monkeypatch.setattr(tasks, "PAUSE_SECONDS", 86_400)
    monkeypatch.setattr(dispatch, "GATHER", timedelta(days=1))
    # Of each batch, few are read again.
    monkeypatch.setattr(event_overlap, "COMMIT_EVENTS", 0)
    monkeypatch.setattr(event_overlap, "OVERLAP", 20)
    return sent


def failures(count: int) -> None:
    """So many failures of one job: each is a notice to its owner."""
    job = Job.objects.get()
    new, now = JobStatus.FAILED, timezone.now()
    facts = {"job": job, "noun": "job", "noun_id": job.label, "old": "running", "new": new}
    Event.objects.bulk_create([Event(**facts, at=now) for _ in range(count)])


@pytest.fixture
def job(rung) -> Job:
    a_node("n1")
    alice = a_user("alice", email="alice@example.org")
    found = a_job(alice, a_project("vision", alice))
    tasks.deliver()  # what was before is not told
    # What follows is done because it was rung.
    assert not rung and not tasks._is_due()
    return found


def deliver_rest(rung: list[str]) -> list[int]:
    """Do the tasks that were rung, until none is; how many notices there were after each."""
    counts = []
    while rung:
        assert len(rung) == 1
        rung.clear()
        tasks.deliver()
        counts.append(Notice.objects.count())
    return counts


def test_thousands_of_notices_are_collected_in_several_short_tasks(monkeypatch, rung, job):
    monkeypatch.setattr(collection, "EVENT_BATCH", 200)
    failures(2_000)
    bell.ring_notices()
    counts = deliver_rest(rung)
    most = 200 * collection.MAX_BATCHES
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) <= most and counts[-1] == 2_000
    assert len(counts) == -(-2_000 // most) > 1
    send(timezone.now() + dispatch.GATHER)
    assert [message.subject for message in mail.outbox] == ["2000 jobs failed"]
    assert not Notice.objects.filter(gathered_at=None).exists()


def test_a_worker_that_dies_between_two_batches_loses_and_doubles_nothing(monkeypatch, rung, job):
    monkeypatch.setattr(collection, "EVENT_BATCH", 20)
    failures(100)
    write, writes = collection.continuation_write, []

    def dies_at_the_third(name, place):
        writes.append(place)
        if len(writes) == 3:
            raise SystemExit
        write(name, place)

    monkeypatch.setattr(collection, "continuation_write", dies_at_the_third)
    bell.ring_notices()
    rung.clear()
    with pytest.raises(SystemExit):
        tasks.deliver()
    # Its third batch was stored, and its place was not.
    assert Notice.objects.count() == 60 and not rung
    bell.ring_notices()
    assert deliver_rest(rung)[-1] == 100
    assert Notice.objects.values("key").distinct().count() == 100


@pytest.mark.parametrize(("seconds", "people", "mails"), [(inf, 3, 2), (0.0, 1, 1)])
def test_a_round_gathers_for_and_mails_so_many_and_the_rest_follows(
    monkeypatch, rung, job, seconds, people, mails
):
    """Without any time left a round still does one of each, so that all have their turn."""
    monkeypatch.setattr(tasks, "ROUND_SECONDS", seconds)
    monkeypatch.setattr(dispatch, "RECIPIENTS", 3)
    monkeypatch.setattr(dispatch, "SEND_BATCH", 2)
    now = timezone.now()
    users = [User(username=f"u{n}", email=f"u{n}@example.org", is_superuser=True) for n in range(8)]
    User.objects.bulk_create(users)
    facts = {"kind": NoticeKind.NODE, "key": "event:1", "data": {"node": "n1"}}
    facts["created_at"] = now - dispatch.GATHER
    Notice.objects.bulk_create([Notice(recipient=user, **facts) for user in users])
    bell.ring_notices()
    while rung:
        rung.clear()
        gathered, sent = NoticeMail.objects.count(), len(mail.outbox)
        tasks.deliver()
        assert NoticeMail.objects.count() - gathered <= people
        assert len(mail.outbox) - sent <= mails
    assert sorted(message.to[0] for message in mail.outbox) == sorted(user.email for user in users)
