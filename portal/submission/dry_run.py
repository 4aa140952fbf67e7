"""What would become of a request if it were submitted now. Changes nothing.

    dry_run(user, request)           ─▶ DryRunResult: verdict, devices or a reason, limits, estimate
    expected_starts(user, requests)  ─▶ for each: at once, or when

The request page, REST's dry run and the command line all show this result. The planner itself makes
it, on a cached snapshot; `portal.planning.snapshot_cache` says how old that may be.
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
from portal.submission.admission import (
    Admission,
    RequestCheck,
    dependencies_of,
    pending_room,
)
from portal.submission.homes import home_warnings, with_home
from portal.submission.launch_preview import LaunchPreview, launch_preview
from portal.submission.placed_warnings import placed_warnings
from portal.submission.planned_gpus import PlannedGpu, planned_gpus
from scheduler.core.explain.alternatives import Alternative, alternatives
from scheduler.core.forecast.pass_estimates import PassEstimate
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.queue_trial import TrialResult
from scheduler.core.quota.holders import quota_models
from scheduler.core.request import JobRequest
from scheduler.core.request.arrays import members_at_once
from scheduler.core.request.values import FieldWarning
from scheduler.core.request.warnings import request_warnings

# No stored job has this id.
TRIAL_ID = "0"
# The form asks while people type: at most this many changes of the request are tried.
MAX_TRIED = 12


class DryRunVerdict(StrEnum):
    # No node could ever run it.
    NEVER = "never"
    # An admin has to approve it first.
    APPROVAL = "approval"
    # It starts at once.
    NOW = "now"
    # It starts within seconds, after idle slices in its way are deleted.
    SOON = "soon"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device that a replica would get."""

    rank: int
    node: str
    gpu: int
    """The GPU's index on its node."""
    kind: str
    profile: str
    threads: int
    """Percent of the SMs, of an MPS share."""
    memory_mib: int
    units: int
    is_carved: bool
    """The slice would be made for it, beside running work."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The answer to one request. If an admin has to approve it, the rest is as if one had."""

    at: datetime
    request: JobRequest
    verdict: DryRunVerdict
    reason: dict[str, Any] | None
    """Why it can never run, or would wait, as this user may read it."""
    approval: Reason | None
    devices: tuple[PlannedDevice, ...]
    gpus: tuple[PlannedGpu, ...]
    """Those of the devices, with what stays beside them."""
    units: int
    """What the whole gang would have at once; of an array, all members that may run at once."""
    unit_seconds: int
    """What it would use at most."""
    estimate: PassEstimate | None
    """None if it starts at once, or nothing is known."""
    alternatives: tuple[Alternative, ...]
    limits: tuple[LimitEffect, ...]
    """Every limit that it counts against."""
    warnings: tuple[FieldWarning, ...]
    """Of the request, and of where it would start at once."""

    def launch(self) -> LaunchPreview:
        """What each replica would be started with."""
        return launch_preview(self.request, {each.rank: each.node for each in self.devices})

    @property
    def begins_at(self) -> datetime | None:
        """The earliest start that the request allows, if it names one."""
        begin_at = self.request.begin_at
        if self.request.begin_in:
            begin_at = int(self.at.timestamp()) + self.request.begin_in
        return datetime.fromtimestamp(begin_at, UTC) if begin_at else None

    @property
    def starting_replicas(self) -> int:
        """How many replicas would start at once; 0 if it would wait."""
        return len({device.rank for device in self.devices})

    @property
    def carves(self) -> bool:
        return any(device.is_carved for device in self.devices)


@dataclass(frozen=True, slots=True)
class RequestStart:
    """When one of several requests could start if it alone were submitted. Without `at_once` and
    `estimate`, the start is unknown, or the request can never run."""

    at_once: bool
    estimate: PassEstimate | None = None
    code: str = ""
    """Of the reason why it would wait."""


def dry_run(*, user: User, request: JobRequest) -> DryRunResult:
    """Raises Refused, as the submit of this request would."""
    request = with_home(request)
    with current_snapshot().locked() as cached:
        check = Admission(user, cached.capacity).check(request)
        pending_room(check.membership, is_locking=False).take()
        dependencies_of(request, check.project)
        job = waiting_job_from_request(
            request,
            id=TRIAL_ID,
            project=request.project,
            user=user.username,
            queued_at=cached.snapshot.now,
            egress=check.project.egress,
        )
        trial = None if check.infeasible else cached.trial.try_job(job)
        reason = trial.reason if trial else check.infeasible
        devices, board = _devices(cached, trial)
        placed = _placed(trial)
        size, at_once = members_at_once(request)
        units = at_once * (sum(device.units for device in devices) or check.units)
        return DryRunResult(
            at=cached.at,
            request=request,
            verdict=_verdict(check, reason),
            reason=visible_reason(reason.as_dict(), visible_projects(user)) if reason else None,
            approval=None if check.infeasible else check.approval,
            devices=devices,
            gpus=planned_gpus(cached, placed),
            units=units,
            unit_seconds=units // at_once * size * request.time_limit_seconds,
            estimate=_estimate(cached, job, trial) if trial else None,
            alternatives=_alternatives(cached, job, trial),
            limits=limit_effects(
                cached.snapshot.quotas,
                cached.snapshot.budgets,
                project=request.project,
                user=user.username,
                units=units,
                seconds=request.time_limit_seconds * -(-size // at_once),
                models=quota_models(board or check.board),
                promises=cached.promises,
            ),
            warnings=(
                *request_warnings(request),
                *home_warnings(request),
                *placed_warnings(cached.snapshot, request, user.username, placed),
            ),
        )


def expected_starts(*, user: User, requests: Sequence[JobRequest]) -> list[RequestStart]:
    """When each request would start if it alone were submitted, all from one look at the queue.

    Rights are not checked: pass only what a submit would accept. On a large cluster, requests that
    would wait get no estimate: each would take a tenth of a second.
    """
    with current_snapshot().locked() as cached:
        jobs = [
            waiting_job_from_request(
                request,
                id=TRIAL_ID,
                project=request.project,
                user=user.username,
                queued_at=cached.snapshot.now,
            )
            for request in requests
        ]
        at_once = cached.trial.can_start(jobs)
        return [
            RequestStart(now) if now or cached.is_large else _later_start(cached, job)
            for job, now in zip(jobs, at_once, strict=True)
        ]


def _later_start(cached: CachedSnapshot, job: WaitingJob) -> RequestStart:
    trial = cached.trial.try_job(job)
    if trial.reason is None:
        return RequestStart(True)
    return RequestStart(False, _estimate(cached, job, trial), str(trial.reason.code))


def _verdict(check: RequestCheck, reason: Reason | None) -> DryRunVerdict:
    if check.infeasible:
        return DryRunVerdict.NEVER
    if check.approval:
        return DryRunVerdict.APPROVAL
    if reason is None:
        return DryRunVerdict.NOW
    return DryRunVerdict.SOON if reason.code is ReasonCode.REPARTITION else DryRunVerdict.WAIT


def _estimate(cached: CachedSnapshot, job: WaitingJob, trial: TrialResult) -> PassEstimate | None:
    if trial.reason is None:
        return None
    return cached.start_estimator.estimate(job, trial.reason.code, trial.starts_at)


def _alternatives(
    cached: CachedSnapshot, job: WaitingJob, trial: TrialResult | None
) -> tuple[Alternative, ...]:
    """Changed requests that would start now; without a trial, those that could ever run."""

    def can_run(changed: WaitingJob) -> bool:
        return cached.capacity.infeasible_reason(changed) is None

    if trial is None:
        return tuple(alternatives(job, cached.boards, can_run, max_tried=MAX_TRIED))
    if trial.reason is None or not trial.reason.code.kind.is_alterable:
        return ()
    return tuple(alternatives(job, cached.boards, trial.can_start, max_tried=MAX_TRIED))


def _placed(trial: TrialResult | None) -> tuple[ReplicaPlacement, ...]:
    return trial.placement.replicas if trial and trial.placement else ()


def _devices(
    cached: CachedSnapshot, trial: TrialResult | None
) -> tuple[tuple[PlannedDevice, ...], str]:
    """What each replica would get at once, and the key of the board; nothing and "" otherwise."""
    devices, board = [], ""
    for replica in _placed(trial):
        for device in replica.devices:
            node, gpu, board = cached.gpus[device.gpu]
            size = (str(device.kind), device.profile, device.threads, device.memory_mib)
            is_carved = bool(device.profile) and not device.slice
            devices.append(PlannedDevice(replica.rank, node, gpu, *size, device.units, is_carved))
    return tuple(devices), board
