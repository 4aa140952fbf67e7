"""Retention: oldest first, in batches, never of a job that runs; pages show what is gone."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from portal.audit.models import AuditEntry, Event
from portal.job_logs.storage import stream_name
from portal.jobs.models import Attempt, Job, Replica
from portal.retention import events, logs
from portal.retention.audit_lines import audit_remove, audit_use
from portal.retention.events import events_remove, events_use
from portal.retention.limits import MIB, RetentionLimits
from portal.retention.logs import logs_remove, logs_use
from portal.retention.tasks import retention_run
from portal.storage.errors import StoreUnavailable
from portal.storage.models import Segment
from portal.storage.stores import current_store
from tests.support.logs import write_log
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
REQUEST = {
    "project": "vision",
    "name": "j",
    "image": "i",
    "command": ["true"],
    "device": {"mig": "1g.18gb"},
}
NO_LIMITS = RetentionLimits(days=0, mib=0)


@pytest.fixture
def now():
    return timezone.now()


@pytest.fixture
def add(tmp_path, now):
    olga = a_user("olga")
    project, node = a_project("vision", olga), a_node("n1", gpus=1).row

    def a_log(days: float | None, size: int = 10) -> Replica:
        """Of a job that ended this number of days ago, or of one that runs (None)."""
        ended = None if days is None else now - timedelta(days=days)
        job = Job.objects.create(
            project=project,
            owner=olga,
            name="j",
            kind="batch",
            image="i",
            request=REQUEST,
            replica_count=1,
            cpu_milli=1000,
            memory_mib=1024,
            time_limit_seconds=60,
            status="running" if ended is None else "succeeded",
            finished_at=ended,
        )
        attempt = Attempt.objects.create(job=job, number=1, created_at=now, ended_at=ended)
        replica = Replica.objects.create(attempt=attempt, rank=0, node=node, log_bytes=size)
        write_log(replica, 0, b"x" * size)
        for number in range(3):
            at = now - timedelta(days=days or 1_000)
            values = {"noun": "job", "noun_id": str(job.pk), "job": job, "actor": "system"}
            Event.objects.create(at=at, code=f"event-{number}", **values)
        return replica

    with override_settings(PLATFORM=replace(settings.PLATFORM, var=tmp_path)):
        yield a_log


def removed() -> list[int]:
    rows = Replica.objects.filter(log_removed_at__isnull=False)
    return list(rows.order_by("attempt__job").values_list("attempt__job", flat=True))


def test_logs_go_by_age_and_those_of_live_jobs_never(add, now):
    old, young, live = add(31), add(29), add(None)
    assert logs_remove(limits=RetentionLimits(days=30, mib=0), now=now) == 1
    assert removed() == [old.attempt.job_id]
    assert current_store().names(stream_name(old)) == []
    for kept in (young, live):
        assert len(current_store().names(stream_name(kept))) == 1
    # An absurd limit removes every ended job's log, and still no live one's.
    assert logs_remove(limits=RetentionLimits(days=1, mib=0), now=now + timedelta(days=99)) == 1
    assert live.attempt.job_id not in removed()


def test_logs_go_by_size_the_oldest_first_until_the_rest_fits(add, now):
    rows = [add(days, size=MIB // 2) for days in (1, 4, 2, 3)]
    live = add(None, size=MIB)
    assert logs_use(RetentionLimits(0, 2)).excess_bytes == MIB
    assert logs_remove(limits=RetentionLimits(days=0, mib=2), now=now) == 2
    assert removed() == sorted(row.attempt.job_id for row in (rows[1], rows[3]))
    assert logs_remove(limits=RetentionLimits(days=0, mib=2), now=now) == 0
    assert live.attempt.job_id not in removed()


def test_without_limits_nothing_is_removed(add, now):
    add(10_000)
    assert logs_remove(limits=NO_LIMITS, now=now) == 0
    assert events_remove(limits=NO_LIMITS, now=now) == 0
    assert Event.objects.count() == 3


def test_a_run_is_bounded_and_the_next_one_goes_on(add, now, monkeypatch):
    monkeypatch.setattr(logs, "BATCH", 2)
    monkeypatch.setattr(events, "BATCH", 4)
    for days in (50, 40, 60):
        add(days)
    limits = RetentionLimits(days=30, mib=0)
    assert [logs_remove(limits=limits, now=now) for _ in range(3)] == [2, 1, 0]
    assert [events_remove(limits=limits, now=now) for _ in range(4)] == [4, 4, 1, 0]
    assert Segment.objects.count() == 0


def test_bytes_that_a_dead_store_kept_are_removed_when_it_is_back(add, now, monkeypatch):
    old = add(31)
    limits = RetentionLimits(days=30, mib=0)

    def fail(name):
        raise OSError("away")

    with monkeypatch.context() as broken:
        broken.setattr(current_store()._storage, "delete", fail)
        with pytest.raises(StoreUnavailable):
            logs_remove(limits=limits, now=now)
    assert removed() == [old.attempt.job_id]
    monkeypatch.setattr(current_store(), "_paused_until", 0.0)
    assert len(current_store().names(stream_name(old))) == 1
    assert logs_remove(limits=limits, now=now) == 0
    assert current_store().names(stream_name(old)) == []


def test_events_go_by_age_and_by_size_and_the_audit_trail_stays(add, now):
    AuditEntry.objects.create(
        at=now - timedelta(days=999), actor="root", action="a", noun="node", noun_id="1"
    )
    node_event = {"noun": "node", "noun_id": "1", "actor": "system"}
    Event.objects.create(at=now - timedelta(days=40), code="old", **node_event)
    Event.objects.create(at=now - timedelta(days=2), code="new", **node_event)
    old, young, live = add(31), add(3), add(None)
    assert events_remove(limits=RetentionLimits(days=30, mib=0), now=now) == 4
    counts = [Event.objects.filter(job=row.attempt.job_id).count() for row in (old, young, live)]
    assert counts == [0, 3, 3]
    Event.objects.filter(job=young.attempt.job_id).update(data={"sentence": "x" * MIB})
    assert events_use(RetentionLimits(0, 2)).excess_bytes > 0
    assert events_remove(limits=RetentionLimits(days=0, mib=2), now=now) > 0
    assert Event.objects.filter(job=live.attempt.job_id).count() == 3
    assert AuditEntry.objects.count() == 1


def test_audit_lines_go_by_whole_days_and_a_line_says_so(now):
    noon = now.replace(hour=12, minute=0)
    of_template = {"actor": "system", "action": "template_save"}
    for hours, values in ((0, {}), (13, {}), (24 * 9, {}), (24 * 9, of_template)):
        line = {"actor": "root", "action": "node_drain", "noun": "node", "noun_id": "1"} | values
        AuditEntry.objects.create(at=noon - timedelta(days=30, hours=hours), **line)
    assert audit_remove(limits=NO_LIMITS, now=noon) == 0
    use = audit_use(RetentionLimits(days=30, mib=0))
    assert (use.count, use.next_removal) == (3, noon - timedelta(days=9))
    for removed_count in (2, 0):
        assert audit_remove(limits=RetentionLimits(days=30, mib=0), now=noon) == removed_count
    last, *kept = AuditEntry.objects.all()
    day = f"{noon - timedelta(days=30):%Y-%m-%d}"
    assert (last.action, last.after) == ("audit_remove", {"lines": 2, "before": day})
    assert [row.action for row in kept] == ["template_save", "node_drain"]


def test_by_size_the_jobs_that_ended_first_lose_their_events_first(add, now, monkeypatch):
    monkeypatch.setattr(events, "ROW_BYTES", MIB)
    young, old = add(3), add(31)
    assert events_remove(limits=RetentionLimits(days=0, mib=4), now=now) == 3
    counts = [Event.objects.filter(job=row.attempt.job_id).count() for row in (young, old)]
    assert counts == [3, 0]


def test_the_log_page_and_rest_say_what_was_removed(add, now, client):
    job = add(31, size=3 * MIB).attempt.job
    with override_settings(PLATFORM=replace(settings.PLATFORM, log_retention_days=30)):
        retention_run()
    client.force_login(job.owner)
    for status in ("succeeded", "failed"):
        Job.objects.filter(pk=job.pk).update(status=status)
        for page in ("web:job_logs", "web:logs_full", "web:job_results"):
            text = client.get(reverse(page, args=[job.label])).content.decode()
            assert "This log (3.0 MiB) was removed by retention, 31 d after the job ended" in text
    events_remove(limits=RetentionLimits(days=30, mib=0), now=now)
    text = client.get(f"/jobs/{job.label}/events").content.decode()
    assert "The events of this job were removed by retention." in text
    refused = client.get(f"/api/v1/jobs/{job.label}/logs")
    assert (refused.status_code, refused.json()["code"]) == (410, "log_removed")
    raw = client.get(reverse("web:raw_log", args=[job.label]))
    assert (raw.status_code, b"removed by retention" in raw.content) == (410, True)


def test_admins_see_use_limits_and_the_next_removal(add, now, client):
    add(10, size=MIB)
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    limits = {"log_retention_days": 30, "event_retention_mib": 5, "audit_retention_days": 365}
    with override_settings(PLATFORM=replace(settings.PLATFORM, **limits)):
        text = client.get("/console/storage/").content.decode()
    assert "30 days after the job ended" in text
    assert "Audit trail" in text and "365 days<" in text
    assert f'datetime="{now + timedelta(days=20):%Y-%m-%d}' in text
    assert str(settings.PLATFORM.var.resolve()) in text


def test_admins_see_that_the_folder_of_logs_cannot_be_used(add, client, tmp_path):
    add(1)
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    (tmp_path / "a-file").touch()
    with override_settings(PLATFORM=replace(settings.PLATFORM, var=tmp_path / "a-file")):
        text = client.get("/console/storage/").content.decode()
    assert "The log store does not answer" in text
    assert "not reachable" in text


def test_several_hosts_with_disks_of_their_own_are_an_alert(add, client, tmp_path):
    add(1)
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    sentence = "2 web hosts keep logs on disks of their own"
    assert sentence not in client.get("/console/").content.decode()
    with override_settings(PLATFORM=replace(settings.PLATFORM, var=tmp_path / "other")):
        add(1)
    assert sentence in client.get("/console/").content.decode()
