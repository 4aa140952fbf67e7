"""Read the ranks of a job's attempt beside each other. The caller has checked that the reader may
see the job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from agents.contract.message import Message
from portal.job_metrics.selectors import LastSteps, last_steps
from portal.jobs.models import Attempt, Job, Replica
from portal.ranks.stragglers import WINDOW_MINUTES, MeasuredDevice, RankStep, lags
from portal.telemetry.job_samples import DeviceActivity, device_activity
from scheduler.core.model.states import JobStatus

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rank:
    """One replica of an attempt, as it compares with the others."""

    replica: Replica
    active_percent: int | None
    """The mean over its devices in the last minutes, or the last ones before the attempt ended.
    None: not measured."""
    last_step: int | None
    """Of the metric that is compared; None if it has not reported it in this attempt."""
    lags: Sequence[Message]
    """Why it is a straggler; empty if it is none, or if the job does not run."""
    failed_first: bool

    @property
    def number(self) -> int:
        return self.replica.rank


@dataclass(frozen=True, slots=True)
class GangRanks:
    """The ranks of an attempt."""

    attempt: Attempt
    ranks: Sequence[Rank]
    """By node: that of the rank that failed first, then by the lowest rank of each."""
    metric: str
    """Whose steps are compared; empty if none was reported."""

    @property
    def stragglers(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.lags]

    @property
    def first_failed_rank(self) -> int | None:
        return next((rank.number for rank in self.ranks if rank.failed_first), None)


def gang_of(job: Job, attempt: Attempt, now: datetime) -> GangRanks:
    """`attempt`: with its replicas and their devices, as `attempts_of` reads it. Three queries, two
    if no metric was reported."""
    replicas = list(attempt.replicas.all())
    activity = _activity(attempt, now)
    steps = last_steps(job, attempt.number)
    why = _lags(replicas, activity, steps, now) if _is_judged(job, attempt) else {}
    first = (attempt.first_failure or {}).get("rank")
    ranks = [
        Rank(
            replica=replica,
            active_percent=_mean(_percents(replica, activity)),
            last_step=steps.steps.get(replica.rank),
            lags=why.get(replica.rank, ()),
            failed_first=replica.rank == first,
        )
        for replica in replicas
    ]
    return GangRanks(attempt, _by_node(ranks), steps.name)


def ranks_by_node(ranks: Sequence[Rank]) -> list[tuple[str, list[Rank]]]:
    """Neighbours on one node, in the order that they have."""
    groups = groupby(ranks, key=lambda rank: rank.replica.location)
    return [(name, list(own)) for name, own in groups]


def _is_judged(job: Job, attempt: Attempt) -> bool:
    """While a gang starts or stops, its ranks differ for other reasons."""
    return attempt.is_open and JobStatus(job.status) is JobStatus.RUNNING


def _activity(attempt: Attempt, now: datetime) -> Mapping[Any, DeviceActivity]:
    # The samples of a minute arrive while the next one runs.
    until = (attempt.ended_at or now).replace(second=0, microsecond=0)
    until += MINUTE if attempt.ended_at else timedelta()
    return device_activity(attempt.pk, until - WINDOW_MINUTES * MINUTE, until)


def _percents(replica: Replica, activity: Mapping[Any, DeviceActivity]) -> list[float]:
    held = [each.pk for each in replica.allocations.all()]
    return [activity[pk].percent for pk in held if pk in activity]


def _mean(percents: Sequence[float]) -> int | None:
    return round(sum(percents) / len(percents)) if percents else None


def _lags(
    replicas: Sequence[Replica],
    activity: Mapping[Any, DeviceActivity],
    steps: LastSteps,
    now: datetime,
) -> Mapping[int, list[Message]]:
    devices = [
        MeasuredDevice(replica.rank, each.own_slice.gpu.index, found.percent, found.minutes)
        for replica in replicas
        for each in replica.allocations.all()
        if (found := activity.get(each.pk))
    ]
    rows = [RankStep(rank, step, steps.counts[rank]) for rank, step in steps.steps.items()]
    started = [replica.started_at for replica in replicas if replica.started_at]
    seconds = (now - min(started, default=now)).total_seconds()
    return lags(devices, rows, metric=steps.name, running_seconds=seconds)


def _by_node(ranks: Sequence[Rank]) -> list[Rank]:
    lowest: dict[str, int] = {}
    for rank in ranks:
        name = rank.replica.location
        lowest[name] = min(rank.number, lowest.get(name, rank.number))
    first = {rank.replica.location for rank in ranks if rank.failed_first}

    def place(rank: Rank) -> tuple[bool, int, bool, int]:
        name = rank.replica.location
        return (name not in first, lowest[name], not rank.failed_first, rank.number)

    return sorted(ranks, key=place)
