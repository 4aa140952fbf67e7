"""What was used, asked for and run lately: who owns how much, the mix of requests, past runs."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Sum
from django.db.models.functions import TruncDay, TruncHour

from portal.accounts.models import Membership, Project
from portal.jobs.asked import asked_for, group_of, seconds
from portal.jobs.models import Allocation, Job
from portal.jobs.running import SECOND, Held
from scheduler.core.states import JobStatus
from scheduler.core.values import Demand, Mix, OwnerView, PastRun

LAST_SUBMITTED = 2_000
LAST_ENDED = 5_000
# What was used longer ago than so many half-lives counts less than 1/256 of itself, and not at all.
HALF_LIVES = 8
# A half-life from which days are fine enough to sum what was given back.
BY_DAYS = 2 * 86_400
# Decay is a fraction of this, so that sums stay whole numbers.
SCALE = 1 << 20

Amounts = tuple[int, int, int]
Owner = tuple[str, str]


def owners(held: Iterable[Held], now: datetime, half_life_seconds: int) -> tuple[OwnerView, ...]:
    """Every project (user "") and every user in it, with what they used: (units, millicores, MiB)
    times seconds, halved by the half-life since it was given back. Three queries.

    What is still held counts whole, from when it was bound.
    """
    used = _used(held, now, half_life_seconds)
    shares = _shares()
    return tuple(
        OwnerView(project, user, weight, *used.get((project, user), (0, 0, 0)), max_running)
        for project, user in sorted(shares.keys() | used.keys())
        for weight, max_running in (shares.get((project, user), (1, 0)),)
    )


def _shares() -> dict[Owner, tuple[int, int]]:
    """Weight and cap of running jobs."""
    projects = Project.objects.order_by("id").values_list("slug", "weight", "max_running")
    members = Membership.objects.order_by("id").values_list(
        "project__slug", "user__username", "weight", "max_running"
    )
    found = {(slug, ""): (weight, most) for slug, weight, most in projects}
    return found | {(slug, user): (weight, most) for slug, user, weight, most in members}


def _used(held: Iterable[Held], now: datetime, half_life_seconds: int) -> dict[Owner, Amounts]:
    sums: dict[Owner, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(owner: Owner, amounts: Iterable[int]) -> None:
        for key in (owner, (owner[0], "")):
            sums[key] = [a + b for a, b in zip(sums[key], amounts, strict=True)]

    for project, user, at, *amounts in _given_back(now, half_life_seconds):
        part = decay((now - at) // SECOND, half_life_seconds)
        add((project, user), [int(amount) * part for amount in amounts])
    for row in held:
        amounts = [row.place.units, row.cpu_milli, row.memory_mib]
        add((row.project, row.user), [amount * row.seconds * SCALE for amount in amounts])
    return {owner: (u // SCALE, c // SCALE, m // SCALE) for owner, (u, c, m) in sums.items()}


def decay(age_seconds: int, half_life_seconds: int) -> int:
    """What is left of SCALE after this time."""
    return round(SCALE * 2.0 ** (-max(0, age_seconds) / half_life_seconds))


def _given_back(now: datetime, half_life_seconds: int) -> Iterable[tuple[Any, ...]]:
    """(project, user, middle of a day or hour, amount-seconds given back in it), summed there."""
    since = now - timedelta(seconds=HALF_LIVES * half_life_seconds)
    by_days = half_life_seconds >= BY_DAYS
    piece = TruncDay("released_at") if by_days else TruncHour("released_at")
    middle = timedelta(hours=12) if by_days else timedelta(minutes=30)
    rows = (
        Allocation.objects.filter(released_at__range=(since, now), used_seconds__gt=0)
        .order_by()
        .annotate(piece=piece)
        .values("project__slug", "user__username", "piece")
        .annotate(
            used_units=Sum(F("used_seconds") * F("units")),
            used_cpu=Sum(F("used_seconds") * F("cpu_milli")),
            used_memory=Sum(F("used_seconds") * F("memory_mib")),
        )
        .values_list(
            *("project__slug", "user__username", "piece", "used_units", "used_cpu", "used_memory")
        )
    )
    return ((project, user, at + middle, *amounts) for project, user, at, *amounts in rows)


def mix() -> Mix:
    """What the last submitted jobs asked for, replica by replica, most frequent first."""
    newest = Job.objects.order_by("-id")[:LAST_SUBMITTED]
    rows = list(
        newest.values_list("uid", "replicas_wanted", "cpu_milli", "memory_mib", "submitted_at")
    )
    if not rows:
        return Mix()
    asked = asked_for(row[0] for row in rows)
    counts: Counter[tuple[Any, int, int]] = Counter()
    for uid, replicas, cpu, memory, _ in rows:
        counts[asked[uid].device, cpu, memory] += replicas
    in_order = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    demands = tuple(Demand(*what, count) for what, count in in_order)
    return Mix(demands, _departing(min(row[4] for row in rows)))


def _departing(since: datetime) -> float:
    """Ended jobs per started one in this time; 0 where none has started."""
    started = Job.objects.filter(started_at__gte=since).count()
    ended = Job.objects.filter(finished_at__gte=since, started_at__isnull=False).count()
    return ended / started if started else 0.0


def past_runs() -> tuple[PastRun, ...]:
    """The last ended runs, in the order of their end."""
    ended = Job.objects.filter(finished_at__isnull=False, started_at__isnull=False)
    rows = ended.order_by("-finished_at", "-id")[:LAST_ENDED].values_list(
        "uid",
        "project__slug",
        "owner__username",
        "name",
        "replicas_wanted",
        "time_limit_seconds",
        "limit_is_chosen",
        "attained_seconds",
        "started_at",
        "finished_at",
        "queued_at",
        "status",
    )
    found: list[Any] = list(rows)
    asked = asked_for(row[0] for row in found)
    return tuple(
        PastRun(
            project=project,
            user=user,
            group=group_of(name),
            gpus=replicas * asked[uid].device.gpus,
            limit_seconds=limit,
            limit_is_chosen=is_chosen,
            ran_seconds=attained + max(0, (finished_at - started_at) // SECOND),
            completed=status == JobStatus.SUCCEEDED,
            ended_at=seconds(finished_at),
            queued_at=seconds(queued_at) if queued_at else 0,
        )
        for uid, project, user, name, replicas, limit, is_chosen, *times, status in reversed(found)
        for attained, started_at, finished_at, queued_at in (times,)
    )
