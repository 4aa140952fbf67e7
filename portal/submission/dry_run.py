"""What would become of a request if it were submitted now, before anybody submits it.

    foresee(user=…, request=…) ─▶ Foreseen: never, to approve, starts here, or waits until about …
    expected_starts(user=…, requests=…) ─▶ for each: at once, or when

The one answer of the request page, of REST's dry run and of the command line. It is the planner's
own of the rows of now (`portal.planning.snapshot_cache` says how old those may be), and changes
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from portal.accounts.models import User
from portal.planning.requests import waiting_job_from_request
from portal.planning.snapshot_cache import CachedSnapshot, current_snapshot
from portal.planning.visible_reasons import visible_projects, visible_reason
from portal.quotas.limits import LimitEffect, limit_effects
from portal.submission.admission import units_of
from portal.submission.services import RequestCheck, request_check
from scheduler.core.devices.options import device_options
from scheduler.core.explain.alternatives import ALTERABLE, Alternative, alternatives
from scheduler.core.forecast.pass_estimates import PassEstimate
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.queue_trial import TrialResult
from scheduler.core.quota.holders import quota_models
from scheduler.core.request import JobRequest

# No stored job has this id.
TRIAL_ID = "0"
# The answer is asked for while one types: no more than so many changes are tried.
MAX_TRIED = 12


class DryRunVerdict(StrEnum):
    """`now`: it starts at once. `soon`: idle slices in its way are deleted first, in seconds."""

    NEVER = "never"
    APPROVAL = "approval"
    NOW = "now"
    SOON = "soon"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device that a replica would get. `carved`: the slice is made for it, beside what runs.
    `threads`: percent, of an MPS share; `gpu`: its index on the node."""

    rank: int
    node: str
    gpu: int
    kind: str
    profile: str
    threads: int
    memory_mib: int
    units: int
    is_carved: bool


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """`reason`: why never, or why it would wait, as this user may read it. Where an admin has to
    approve it (`approval`), all the rest is as if one did now. `units` it would hold at once, and
    `unit_seconds` use at most; `instead`: what could run or start in its place; `against`: every
    limit that it counts against; `start`: None where it starts at once, or nothing is known."""

    at: datetime
    request: JobRequest
    verdict: DryRunVerdict
    reason: dict[str, Any] | None
    approval: Reason | None
    devices: tuple[PlannedDevice, ...]
    units: int
    unit_seconds: int
    estimate: PassEstimate | None
    alternatives: tuple[Alternative, ...]
    limits: tuple[LimitEffect, ...]

    @property
    def begins_at(self) -> datetime | None:
        """Not before this, where the request says so."""
        begin_at = self.request.begin_at
        if self.request.begin_in:
            begin_at = int(self.at.timestamp()) + self.request.begin_in
        return datetime.fromtimestamp(begin_at, UTC) if begin_at else None

    @property
    def carves(self) -> bool:
        return any(device.is_carved for device in self.devices)


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When one of several requests could start if it alone were made. Neither `at_once` nor
    `foretold`: it is not known, or never; `code` says why it would wait."""

    at_once: bool
    estimate: PassEstimate | None = None
    code: str = ""


def dry_run(*, user: User, request: JobRequest) -> DryRunResult:
    """The answer to one request. Raises Refused, as its submit would."""
    with current_snapshot().locked() as world:
        judged = request_check(user=user, request=request, capacity=world.capacity)
        if judged.never:
            return _never(world, user, request, judged)
        job = _waiting(world, user, request)
        asked = world.trial.try_job(job)
        given = tuple(_given(world, asked.place)) if asked.place else ()
        units = sum(device.units for device in given) or units_of(request, world.boards)
        reason = (
            visible_reason(asked.reason.as_dict(), visible_projects(user)) if asked.reason else None
        )
        return DryRunResult(
            at=world.at,
            request=request,
            verdict=_verdict(judged, asked),
            reason=reason,
            approval=judged.approval,
            devices=given,
            units=units,
            unit_seconds=units * request.time_limit_seconds,
            estimate=_start(world, job, asked),
            alternatives=_instead(world, job, asked),
            limits=_against(world, user, request, asked.place, units),
        )


def expected_starts(*, user: User, requests: Sequence[JobRequest]) -> list[ExpectedStart]:
    """When each of them would start if it alone were made, all by one look at the queue. Says
    nothing of the user's rights: only what a submit takes should be asked. In a large world it is
    not known of those that would wait: to find out takes a tenth of a second each."""
    with current_snapshot().locked() as world:
        jobs = [_waiting(world, user, request) for request in requests]
        at_once = world.trial.can_start(jobs)
        return [
            _later(world, job) if not (now or world.is_large) else ExpectedStart(now)
            for job, now in zip(jobs, at_once, strict=True)
        ]


def _later(world: CachedSnapshot, job: WaitingJob) -> ExpectedStart:
    asked = world.trial.try_job(job)
    if asked.reason is None:
        return ExpectedStart(True)
    return ExpectedStart(False, _start(world, job, asked), str(asked.reason.code))


def _waiting(world: CachedSnapshot, user: User, request: JobRequest) -> WaitingJob:
    """The request as the last of the queue."""
    now = world.snapshot.now
    return waiting_job_from_request(
        request, id=TRIAL_ID, project=request.project, user=user.username, queued_at=now
    )


def _never(
    world: CachedSnapshot, user: User, request: JobRequest, judged: RequestCheck
) -> DryRunResult:
    """With what could run here in its place."""
    reason = judged.never
    units = units_of(request, world.boards)

    def can_run(job: WaitingJob) -> bool:
        return world.capacity.infeasible_reason(job) is None

    job = _waiting(world, user, request)
    return DryRunResult(
        at=world.at,
        request=request,
        verdict=DryRunVerdict.NEVER,
        reason=visible_reason(reason.as_dict() if reason else None, visible_projects(user)),
        approval=None,
        devices=(),
        units=units,
        unit_seconds=units * request.time_limit_seconds,
        estimate=None,
        alternatives=tuple(alternatives(job, world.boards, can_run, max_tried=MAX_TRIED)),
        limits=_against(world, user, request, None, units),
    )


def _verdict(judged: RequestCheck, asked: TrialResult) -> DryRunVerdict:
    if judged.approval:
        return DryRunVerdict.APPROVAL
    if asked.reason is None:
        return DryRunVerdict.NOW
    return DryRunVerdict.SOON if asked.reason.code is ReasonCode.REPARTITION else DryRunVerdict.WAIT


def _start(world: CachedSnapshot, job: WaitingJob, asked: TrialResult) -> PassEstimate | None:
    if asked.reason is None:
        return None
    return world.start_estimator.estimate(job, asked.reason.code, asked.starts_at)


def _instead(world: CachedSnapshot, job: WaitingJob, asked: TrialResult) -> tuple[Alternative, ...]:
    """What would start now, where a change of the request can help."""
    if asked.reason is None or asked.reason.code not in ALTERABLE:
        return ()
    return tuple(alternatives(job, world.boards, asked.can_start, max_tried=MAX_TRIED))


def _given(world: CachedSnapshot, place: JobPlacement) -> list[PlannedDevice]:
    found = []
    for replica in place.replicas:
        for device in replica.devices:
            node, gpu, _ = world.gpus[device.gpu]
            how = (str(device.kind), device.profile, device.threads, device.memory_mib)
            carved = bool(device.profile) and not device.slice
            found.append(PlannedDevice(replica.rank, node, gpu, *how, device.units, carved))
    return found


def _against(
    world: CachedSnapshot, user: User, request: JobRequest, place: JobPlacement | None, units: int
) -> tuple[LimitEffect, ...]:
    """By the board that it gets, or that the cheapest way to serve it has."""
    if place:
        board = world.gpus[place.replicas[0].devices[0].gpu][2]
    else:
        board = next((want.board for want in device_options(request.device, world.boards)), "")
    return limit_effects(
        world.snapshot.quotas,
        world.snapshot.budgets,
        project=request.project,
        user=user.username,
        units=units,
        seconds=request.time_limit_seconds,
        models=quota_models(board),
    )
