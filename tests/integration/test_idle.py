"""Idle jobs: warned, then stopped with the evidence, where their project wants it and they were
measured."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.allocations.models import Allocation, AllocationSample
from portal.audit.models import AuditEntry, Event
from portal.errors import Refused
from portal.idle.models import IdlePolicy, IdleSpell
from portal.idle.selectors import reclaimed_unit_seconds
from portal.idle.services import idle_jobs_sweep, idle_policy_set
from portal.jobs.models import Job
from portal.notices.collection import notices_collect
from portal.notices.models import Notice
from portal.notices.sentences import notice_line
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
NOW = timezone.now().replace(second=30, microsecond=0)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def job(olga, team, node) -> Job:
    return start(olga, team, node)


def start(olga, team, node, **fields) -> Job:
    job = a_job(olga, team, **fields)
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def policy(team, warn: int | None = 10, stop: int | None = 20, threshold: int = 5) -> None:
    idle_policy_set(
        project=team,
        threshold_percent=threshold,
        warn_minutes=warn,
        stop_minutes=stop,
        actor="root",
    )


def measure(job: Job, minutes: int, percent: int | None = 1, *, until=NOW) -> None:
    """The minutes before `until`, of each of its devices."""
    newest = until.replace(second=0) - MINUTE
    AllocationSample.objects.bulk_create(
        AllocationSample(
            allocation=allocation, minute=newest - n * MINUTE, active_percent=percent, why={}
        )
        for allocation in Allocation.objects.filter(replica__attempt__job=job)
        for n in range(minutes)
    )


def codes(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job).order_by("id").values_list("code", flat=True))


def test_without_a_policy_nothing_is_judged(job, django_assert_num_queries):
    measure(job, 60)
    with django_assert_num_queries(1):
        idle_jobs_sweep(NOW)
    assert not IdleSpell.objects.exists()


def test_it_is_warned_once_and_then_stopped_with_the_evidence(job, team):
    policy(team)
    measure(job, 12)
    idle_jobs_sweep(NOW)
    idle_jobs_sweep(NOW + MINUTE)
    assert codes(job).count("job_idle") == 1
    spell = IdleSpell.objects.get()
    assert (spell.peak_percent, spell.stopped_at) == (1, None)
    # It is told when, and not stopped sooner, however long it was idle before the warning.
    assert spell.stops_at == NOW + 10 * MINUTE
    later = NOW + 11 * MINUTE
    measure(job, 11, until=later)
    Job.objects.update(deadline_at=later + timedelta(hours=2))
    idle_jobs_sweep(later)
    job.refresh_from_db()
    assert (job.status, job.stop_reason) == ("stopping", "idle")
    event = Event.objects.filter(job=job, new="stopping").get()
    assert "idle for 23 min: its GPUs were at most 1 % active" in event.sentence
    units, count = reclaimed_unit_seconds([team.pk], NOW, later + MINUTE)
    held = sum(Allocation.objects.live().values_list("units", flat=True))
    assert (units, count) == (held * 7_200, 1)


def test_an_idle_job_ends_as_cancelled_and_is_not_tried_again(olga, team, node):
    job = start(olga, team, node, retries={"user": 2})
    policy(team)
    measure(job, 12)
    idle_jobs_sweep(NOW)
    measure(job, 11, until=NOW + 11 * MINUTE)
    idle_jobs_sweep(NOW + 11 * MINUTE)
    settle(node)
    job.refresh_from_db()
    assert (job.status, job.stop_reason) == ("cancelled", "idle")


def test_work_in_between_ends_the_spell(job, team):
    policy(team)
    measure(job, 12)
    idle_jobs_sweep(NOW)
    measure(job, 3, 80, until=NOW + 3 * MINUTE)
    idle_jobs_sweep(NOW + 3 * MINUTE)
    assert not IdleSpell.objects.exists()
    measure(job, 12, until=NOW + 15 * MINUTE)
    idle_jobs_sweep(NOW + 15 * MINUTE)
    assert codes(job).count("job_idle") == 2


@pytest.mark.parametrize("percent", [None, 5, 100])
def test_what_was_not_measured_or_is_busy_is_never_judged(job, team, percent):
    policy(team)
    measure(job, 60, percent)
    idle_jobs_sweep(NOW)
    assert not IdleSpell.objects.exists()


def test_without_minutes_to_stop_a_job_is_only_warned(job, team):
    policy(team, stop=None)
    measure(job, 500)
    for n in range(3):
        if n:
            measure(job, 1, until=NOW + n * MINUTE)
        idle_jobs_sweep(NOW + n * MINUTE)
    job.refresh_from_db()
    assert job.status == "running"
    assert IdleSpell.objects.get().stops_at is None


def test_a_policy_is_checked_audited_and_taken_away_with_its_spells(job, team):
    for wrong in ({"warn": 5}, {"warn": 30, "stop": 31}, {"warn": None, "stop": 30}):
        with pytest.raises(Refused):
            policy(team, **wrong)
    with pytest.raises(Refused):
        policy(team, threshold=80)
    policy(team)
    measure(job, 12)
    idle_jobs_sweep(NOW)
    policy(team, warn=None, stop=None)
    assert not IdlePolicy.objects.exists()
    assert not IdleSpell.objects.exists()
    lines = AuditEntry.objects.filter(action="idle_policy_set").order_by("id")
    assert [bool(line.after) for line in lines] == [True, False]


def test_the_page_says_since_when_it_is_idle_and_afterwards_why_it_ended(
    client, olga, job, team, node
):
    policy(team)
    measure(job, 12)
    idle_jobs_sweep(NOW)
    client.force_login(olga)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "its GPUs were at most 1 % active. It is stopped at" in text
    measure(job, 11, until=NOW + 11 * MINUTE)
    idle_jobs_sweep(NOW + 11 * MINUTE)
    settle(node)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "Stopped while idle" in text
    assert "its GPUs were at most 1 % active" in text


def test_a_job_that_asked_for_it_is_exempt(olga, team, node):
    job = start(olga, team, node, idle_stop=False)
    policy(team)
    measure(job, 60)
    idle_jobs_sweep(NOW)
    assert not IdleSpell.objects.exists()


def test_its_owner_is_told_before_and_after(olga, job, team, node):
    User.objects.update(email="olga@example.org")
    notices_collect(NOW, mails=True)
    policy(team)
    measure(job, 12)
    idle_jobs_sweep(NOW)
    measure(job, 11, until=NOW + 11 * MINUTE)
    idle_jobs_sweep(NOW + 11 * MINUTE)
    settle(node)
    notices_collect(NOW + 12 * MINUTE, mails=True)
    told = [notice_line(notice, "") for notice in Notice.objects.order_by("id")]
    assert "does not use its GPUs, and is stopped at" in told[0].text
    assert told[1].text == f"{job.label} sum was stopped: its GPUs were idle"


def test_an_admin_sets_the_policy_on_the_page_of_the_project(client, team):
    client.force_login(a_user("root", is_superuser=True))
    address = reverse("web:project_settings", args=[team.slug])
    typed = {"name": "Vision", "weight": 1, "max_running": 0, "max_pending": 0}
    idle = {"idle_threshold_percent": 3, "idle_warn_minutes": 30, "idle_stop_minutes": 60}
    assert client.post(address, typed | idle | {"idle_stop_minutes": 31}).status_code == 400
    answer = client.post(address, typed | idle)
    assert answer.status_code == 302, answer.content.decode()
    found = IdlePolicy.objects.get()
    assert (found.threshold_percent, found.warn_minutes, found.stop_minutes) == (3, 30, 60)
    assert 'value="30"' in client.get(address).content.decode()


def test_usage_of_the_project_says_what_was_given_back(client, job, team):
    client.force_login(a_user("root", is_superuser=True))
    now = timezone.now()
    IdleSpell.objects.create(
        job=job,
        since=now,
        warned_at=now,
        peak_percent=1,
        stopped_at=now,
        reclaimed_unit_seconds=56_000 * 7_200,
    )
    text = client.get(f"/usage/?of=project:{team.slug}").content.decode()
    assert "1 idle job was stopped, which gave back 2.0" in text
