"""New notices from what has happened: events of jobs and nodes, time limits, budgets.

Nothing here runs in a transaction that moves a job. What is collected twice is one row, by the
unique keys, so a worker that dies in the middle loses nothing: the next one reads again.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import Max, Q, QuerySet

from portal.allocations.budgets import budget_views, is_nearly_used
from portal.audit.codes import EventCode
from portal.audit.event_overlap import events_after, is_settled
from portal.audit.models import Event
from portal.jobs.models import Job, StopReason
from portal.leases.services import continuation_read, continuation_write
from portal.notices.audience import (
    Audience,
    a_notice,
    audience_of_budgets,
    audience_of_jobs,
    audience_of_nodes,
    chat_wants,
)
from portal.notices.kinds import NoticeKind
from portal.notices.models import DEFAULT_LEAD_MINUTES, Notice, NoticeSettings
from portal.quotas.models import Budget
from scheduler.core.model.states import JobStatus, NodeStatus

LEASE = "notices"
EVENT_BATCH = 500
# Of one round; what is left follows in another.
MAX_BATCHES = 4
LOOK_EVERY = timedelta(seconds=30)
KIND_OF_STATUS = {
    JobStatus.RUNNING: NoticeKind.STARTED,
    JobStatus.FAILED: NoticeKind.FAILED,
    JobStatus.TIMED_OUT: NoticeKind.FAILED,
    JobStatus.SUCCEEDED: NoticeKind.ENDED,
    JobStatus.CANCELLED: NoticeKind.ENDED,
}
# A job that goes back to the queue from one of these had started.
RAN = (JobStatus.RUNNING, JobStatus.STOPPING)
# Of a running job that is going to be stopped, or should be looked at.
WARNINGS = (EventCode.JOB_IDLE, EventCode.JOB_HUNG)
# A node or a GPU of it breaks.
NODE_CODES = (
    EventCode.HEALTH_FAULTED,
    EventCode.HEALTH_MISSING,
    EventCode.NODE_FROZEN,
    EventCode.NODE_HOLDING,
    EventCode.PAIR_SLOW,
    EventCode.PAIR_WRONG,
)
# A time limit is told no earlier than in its last quarter: nobody wants it at the start.
LEAD_PART = 4
MIN_LIMIT = timedelta(minutes=10)


def notices_collect(
    now: datetime, *, mails: bool, should_stop: Callable[[], bool] = lambda: False
) -> bool:
    """One round: events since the last one; every half minute also time limits and budgets.
    Without `mails` only chats are told: what nobody could mail must not pile up.

    `should_stop` is called between two batches. Returns whether events are left."""
    is_left = True
    for number in range(MAX_BATCHES):
        if not is_left or (number and should_stop()):
            break
        is_left = _events_collect(now, mails)
    place = continuation_read(LEASE) or {}
    looked = place.get("looked_at")
    if looked is None or now - datetime.fromisoformat(looked) >= LOOK_EVERY:
        continuation_write(LEASE, place | {"looked_at": now.isoformat()})
        _store(_new([*_endings(now), *_budgets(now)]), mails)
    return is_left


def _events_collect(now: datetime, mails: bool) -> bool:
    """Read one batch of events. Returns whether there may be more. The first time ever, only the
    place is noted: nobody wants to be told of last month."""
    place = continuation_read(LEASE) or {}
    seen = place.get("event")
    if seen is None:
        newest = Event.objects.aggregate(n=Max("id"))["n"] or 0
        continuation_write(LEASE, place | {"event": newest, "first": newest})
        return False
    ids = list(
        Event.objects.filter(id__gt=seen).order_by("id").values_list("id", flat=True)[:EVENT_BATCH]
    )
    if not ids and is_settled(seen, now):
        return False
    last = ids[-1] if ids else seen
    rows = events_after(seen, now, first=place.get("first", 0)).filter(id__lte=last)
    jobs = list(
        rows.filter(noun="job")
        .filter(Q(new__in=[str(s) for s in KIND_OF_STATUS]) | Q(code__in=[*map(str, WARNINGS)]))
        .select_related("job__owner", "job__project")
        .order_by("id")
    )
    nodes = rows.filter(node__isnull=False).filter(
        Q(noun="node", new=NodeStatus.LOST) | Q(code__in=[str(code) for code in NODE_CODES])
    )
    _store([*_of_jobs(jobs, now), *_of_nodes(nodes, now)], mails)
    continuation_write(LEASE, place | {"event": last})
    return len(ids) == EVENT_BATCH


def _of_jobs(events: Sequence[Event], now: datetime) -> Iterable[Notice]:
    jobs = [event.job for event in events if event.job]
    audience = audience_of_jobs(jobs)
    waits = _waits([event for event in events if event.new == JobStatus.RUNNING])
    for event in events:
        if event.job:
            waited = waits.get(event.pk, timedelta())
            yield from _of_job(event, event.job, audience, waited, now)


def _of_job(
    event: Event, job: Job, audience: Audience, waited: timedelta, now: datetime
) -> Iterable[Notice]:
    kind, status = _kind(event)
    data = {"status": event.new, "actor": event.actor, "minutes": int(waited.total_seconds() // 60)}
    if event.code in (EventCode.JOB_IDLE, StopReason.IDLE):
        data |= {"idle": event.data.get("stops_at", "")}
    if event.code == EventCode.JOB_HUNG:
        data |= {"hung": event.data.get("stops_at", "")}
    key = f"event:{event.pk}"
    settings = audience.settings_of(job.owner)
    is_own_act = event.actor == job.owner.username
    if kind is not NoticeKind.STARTED or waited >= timedelta(minutes=settings.wait_minutes):
        if not is_own_act and audience.wants_mail(job.owner, kind, job):
            yield a_notice(kind, key, now=now, recipient=job.owner, job=job, data=data)
        for chat in audience.chats_for(job):
            if chat_wants(chat, kind, job, status):
                yield a_notice(kind, key, now=now, endpoint=chat, job=job, data=data)


def _kind(event: Event) -> tuple[NoticeKind, str]:
    """And the status that a chat would choose to be told of it. A warned job is about to end; one
    that was stopped as idle has failed to do its work, as at a time limit."""
    if event.code in WARNINGS:
        return NoticeKind.ENDING, JobStatus.RUNNING
    if event.new == JobStatus.CANCELLED and event.code == StopReason.IDLE:
        return NoticeKind.FAILED, JobStatus.TIMED_OUT
    return KIND_OF_STATUS[JobStatus(event.new)], event.new


def _waits(starts: Sequence[Event]) -> dict[int, timedelta]:
    """By start: how long the job could have started and did not. A job that ran before has waited
    since it was stopped. One query, or none."""
    jobs = {event.job.pk for event in starts if event.job}
    if not jobs:
        return {}
    stops = Event.objects.filter(job_id__in=jobs, new=JobStatus.QUEUED, old__in=RAN)
    stopped = list(stops.order_by("id").values_list("job_id", "id", "at"))
    waits = {}
    for start in starts:
        if (job := start.job) is not None:
            again = [at for pk, event, at in stopped if pk == job.pk and event < start.pk]
            since = [job.queued_at or job.submitted_at, job.begin_at, *again]
            waits[start.pk] = max(timedelta(), start.at - max(at for at in since if at))
    return waits


def _of_nodes(events: QuerySet[Event], now: datetime) -> Iterable[Notice]:
    rows = list(events.select_related("node"))
    if not rows:
        return
    audience, admins = audience_of_nodes()
    for event in rows:
        for admin in admins:
            if event.node and audience.wants_mail(admin, NoticeKind.NODE):
                data = {"event": event.pk, "node": event.node.name}
                key = f"event:{event.pk}"
                yield a_notice(NoticeKind.NODE, key, now=now, recipient=admin, data=data)


def _endings(now: datetime) -> Iterable[Notice]:
    """Running jobs that reach their time limit soon. An extended one is told of again."""
    early = NoticeSettings.objects.filter(lead_minutes__gt=DEFAULT_LEAD_MINUTES)
    longest = early.aggregate(n=Max("lead_minutes"))["n"] or 0
    jobs = list(
        Job.objects.filter(
            # Of most owners only jobs that end soon are read, however early a few are told.
            Q(deadline_at__lte=now + timedelta(minutes=DEFAULT_LEAD_MINUTES))
            | Q(
                deadline_at__lte=now + timedelta(minutes=longest), owner__in=early.values("user_id")
            ),
            status=JobStatus.RUNNING,
            deadline_at__gt=now,
            time_limit_seconds__gte=MIN_LIMIT.total_seconds(),
        )
        .select_related("owner", "project")
        .order_by("deadline_at")
    )
    audience = audience_of_jobs(jobs)
    return [notice for job in jobs for notice in _of_ending(job, audience, now)]


def _of_ending(job: Job, audience: Audience, now: datetime) -> Iterable[Notice]:
    if job.deadline_at is None:
        return
    wanted = timedelta(minutes=audience.settings_of(job.owner).lead_minutes)
    lead = min(wanted, timedelta(seconds=job.time_limit_seconds) / LEAD_PART)
    if job.deadline_at - now > lead:
        return
    kind, data = NoticeKind.ENDING, {"deadline_at": job.deadline_at.isoformat()}
    key = f"job:{job.pk}:{job.deadline_at:%Y%m%d%H%M%S}"
    if audience.wants_mail(job.owner, kind, job):
        yield a_notice(kind, key, now=now, recipient=job.owner, job=job, data=data)
    for chat in audience.chats_for(job):
        if chat_wants(chat, kind, job, JobStatus.RUNNING):
            yield a_notice(kind, key, now=now, endpoint=chat, job=job, data=data)


def _budgets(now: datetime) -> Iterable[Notice]:
    """Current budgets that are nearly used or reserved. One whose limit is raised is told again."""
    rows = list(Budget.objects.current(now).select_related("project", "user").order_by("id"))
    views = zip(rows, budget_views(rows, now), strict=True)
    near = [(row, view) for row, view in views if is_nearly_used(view)]
    audience = audience_of_budgets([row for row, _ in near])
    for row, view in near:
        percent = (view.used_unit_seconds + view.reserved_unit_seconds) * 100
        data = {"project": row.project.slug, "user": row.user.username if row.user else ""}
        data["percent"] = str(percent // view.limit_unit_seconds)
        kind, key = NoticeKind.BUDGET, f"budget:{row.pk}:{row.limit_unit_seconds}"
        for user in audience.people_of(row):
            if audience.wants_mail(user, kind):
                yield a_notice(kind, key, now=now, recipient=user, data=data)
        for chat in audience.chats:
            if chat.project_id == row.project_id and row.user is None:
                yield a_notice(kind, key, now=now, endpoint=chat, data=data)


def _store(found: Iterable[Notice], mails: bool) -> None:
    rows = [notice for notice in found if mails or notice.recipient_id is None]
    Notice.objects.bulk_create(rows, ignore_conflicts=True)


def _new(found: list[Notice]) -> list[Notice]:
    """Those that are not there yet: what is looked at every round is not written every round."""
    known = set(
        Notice.objects.filter(key__in={notice.key for notice in found}).values_list(
            "recipient_id", "endpoint_id", "kind", "key"
        )
    )
    return [n for n in found if (n.recipient_id, n.endpoint_id, str(n.kind), n.key) not in known]
