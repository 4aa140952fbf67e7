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
from portal.planning.snapshot import as_waiting
from portal.planning.snapshot_cache import World, world_now
from portal.planning.visible_reasons import projects_of, reason_for
from portal.quotas.limits import Against, against
from portal.submission.admission import units_of
from portal.submission.services import Judged, job_check
from scheduler.core.devices.options import wants
from scheduler.core.explain.alternatives import ALTERABLE, Alternative, alternatives
from scheduler.core.forecast.pass_estimates import Foretold
from scheduler.core.model.decisions import Place
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.queue_trial import Asked
from scheduler.core.quota.holders import models_of
from scheduler.core.request import JobRequest

# No stored job has this id.
ASKED = "0"
# The answer is asked for while one types: no more than so many changes are tried.
MOST_TRIED = 12


class Verdict(StrEnum):
    """`now`: it starts at once. `soon`: idle slices in its way are deleted first, in seconds."""

    NEVER = "never"
    APPROVAL = "approval"
    NOW = "now"
    SOON = "soon"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Given:
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
    carved: bool


@dataclass(frozen=True, slots=True)
class Foreseen:
    """`reason`: why never, or why it would wait, as this user may read it. Where an admin has to
    approve it (`approval`), all the rest is as if one did now. `units` it would hold at once, and
    `unit_seconds` use at most; `instead`: what could run or start in its place; `against`: every
    limit that it counts against; `start`: None where it starts at once, or nothing is known."""

    at: datetime
    request: JobRequest
    verdict: Verdict
    reason: dict[str, Any] | None
    approval: Reason | None
    given: tuple[Given, ...]
    units: int
    unit_seconds: int
    start: Foretold | None
    instead: tuple[Alternative, ...]
    against: tuple[Against, ...]

    @property
    def begins_at(self) -> datetime | None:
        """Not before this, where the request says so."""
        begin_at = self.request.begin_at
        if self.request.begin_in:
            begin_at = int(self.at.timestamp()) + self.request.begin_in
        return datetime.fromtimestamp(begin_at, UTC) if begin_at else None

    @property
    def carves(self) -> bool:
        return any(device.carved for device in self.given)


@dataclass(frozen=True, slots=True)
class Start:
    """When one of several requests could start if it alone were made. Neither `at_once` nor
    `foretold`: it is not known, or never; `code` says why it would wait."""

    at_once: bool
    foretold: Foretold | None = None
    code: str = ""


def foresee(*, user: User, request: JobRequest) -> Foreseen:
    """The answer to one request. Raises Refused, as its submit would."""
    with world_now().asking() as world:
        judged = job_check(user=user, request=request, capacity=world.capacity)
        if judged.never:
            return _never(world, user, request, judged)
        job = _waiting(world, user, request)
        asked = world.standing.asked(job)
        given = tuple(_given(world, asked.place)) if asked.place else ()
        units = sum(device.units for device in given) or units_of(request, world.boards)
        reason = reason_for(asked.reason.as_dict(), projects_of(user)) if asked.reason else None
        return Foreseen(
            at=world.at,
            request=request,
            verdict=_verdict(judged, asked),
            reason=reason,
            approval=judged.approval,
            given=given,
            units=units,
            unit_seconds=units * request.time_limit_seconds,
            start=_start(world, job, asked),
            instead=_instead(world, job, asked),
            against=_against(world, user, request, asked.place, units),
        )


def expected_starts(*, user: User, requests: Sequence[JobRequest]) -> list[Start]:
    """When each of them would start if it alone were made, all by one look at the queue. Says
    nothing of the user's rights: only what a submit takes should be asked. In a large world it is
    not known of those that would wait: to find out takes a tenth of a second each."""
    with world_now().asking() as world:
        jobs = [_waiting(world, user, request) for request in requests]
        at_once = world.standing.could_start(jobs)
        return [
            _later(world, job) if not (now or world.is_large) else Start(now)
            for job, now in zip(jobs, at_once, strict=True)
        ]


def _later(world: World, job: WaitingJob) -> Start:
    asked = world.standing.asked(job)
    if asked.reason is None:
        return Start(True)
    return Start(False, _start(world, job, asked), str(asked.reason.code))


def _waiting(world: World, user: User, request: JobRequest) -> WaitingJob:
    """The request as the last of the queue."""
    now = world.snapshot.now
    return as_waiting(request, id=ASKED, project=request.project, user=user.username, queued_at=now)


def _never(world: World, user: User, request: JobRequest, judged: Judged) -> Foreseen:
    """With what could run here in its place."""
    reason = judged.never
    units = units_of(request, world.boards)

    def can_run(job: WaitingJob) -> bool:
        return world.capacity.never(job) is None

    job = _waiting(world, user, request)
    return Foreseen(
        at=world.at,
        request=request,
        verdict=Verdict.NEVER,
        reason=reason_for(reason.as_dict() if reason else None, projects_of(user)),
        approval=None,
        given=(),
        units=units,
        unit_seconds=units * request.time_limit_seconds,
        start=None,
        instead=tuple(alternatives(job, world.boards, can_run, tried=MOST_TRIED)),
        against=_against(world, user, request, None, units),
    )


def _verdict(judged: Judged, asked: Asked) -> Verdict:
    if judged.approval:
        return Verdict.APPROVAL
    if asked.reason is None:
        return Verdict.NOW
    return Verdict.SOON if asked.reason.code is ReasonCode.REPARTITION else Verdict.WAIT


def _start(world: World, job: WaitingJob, asked: Asked) -> Foretold | None:
    if asked.reason is None:
        return None
    return world.starts.of(job, asked.reason.code, asked.starts_at)


def _instead(world: World, job: WaitingJob, asked: Asked) -> tuple[Alternative, ...]:
    """What would start now, where a change of the request can help."""
    if asked.reason is None or asked.reason.code not in ALTERABLE:
        return ()
    return tuple(alternatives(job, world.boards, asked.could_start, tried=MOST_TRIED))


def _given(world: World, place: Place) -> list[Given]:
    found = []
    for replica in place.replicas:
        for device in replica.devices:
            node, gpu, _ = world.gpus[device.gpu]
            how = (str(device.kind), device.profile, device.threads, device.memory_mib)
            carved = bool(device.profile) and not device.slice
            found.append(Given(replica.rank, node, gpu, *how, device.units, carved))
    return found


def _against(
    world: World, user: User, request: JobRequest, place: Place | None, units: int
) -> tuple[Against, ...]:
    """By the board that it gets, or that the cheapest way to serve it has."""
    if place:
        board = world.gpus[place.replicas[0].devices[0].gpu][2]
    else:
        board = next((want.board for want in wants(request.device, world.boards)), "")
    return against(
        world.snapshot.quotas,
        world.snapshot.budgets,
        project=request.project,
        user=user.username,
        units=units,
        seconds=request.time_limit_seconds,
        models=models_of(board),
    )
