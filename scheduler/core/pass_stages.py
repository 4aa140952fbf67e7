"""The stages that a waiting job goes through when its turn comes: `STAGES`, in order.

A stage gets the state of the pass and the turn, and returns one of three things: STARTED, the
reason why the job stays in the queue, or NEXT for the stage after it. The last stage always has a
reason. From `enter_devices` on, a job that stays behind has to do with devices: it may get a
reservation, and equal requests after it get the same reason at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from scheduler.core.devices.options import DeviceOption
from scheduler.core.explain.reasons import explain, repartition_reason
from scheduler.core.model.decisions import JobPlacement, Merge, Preemption, PreemptionCause
from scheduler.core.model.policy import BackfillMode
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.pass_search import choose_size, find_undelayed, quota_shortage
from scheduler.core.pass_state import PassState, Turn
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import GangPlacement, find_placement
from scheduler.core.queue.eligibility import not_due
from scheduler.core.queue.messages import (
    BEHIND_OTHERS,
    OWN_DEVICES,
    placement_message,
    waits_for_reservation,
    waits_for_stops,
)
from scheduler.core.queue.preemption import (
    PreemptionChoice,
    enough_by_gpu_count,
    make_room,
    make_room_by_moving,
)
from scheduler.core.queue.quota_preemption import make_quota_room
from scheduler.core.queue.quota_reservation import quota_reserved_reason
from scheduler.core.queue.running import PreemptibleJob


class StageEnd(Enum):
    STARTED = "started"
    NEXT = "next"


STARTED: Final = StageEnd.STARTED
NEXT: Final = StageEnd.NEXT
StageResult = Reason | StageEnd
Stage = Callable[[PassState, Turn], StageResult]


def take_turn(state: PassState, turn: Turn) -> Reason | None:
    """Place the job, or the reason why it stays in the queue."""
    for stage in STAGES:
        result = stage(state, turn)
        if result is NEXT:
            continue
        if result is STARTED:
            return None
        if turn.wants_devices:
            _stay_behind(state, turn, result)
        return result
    raise AssertionError("the last stage gives a reason")


# Admission.


def skip_not_due(state: PassState, turn: Turn) -> StageResult:
    return not_due(turn.job, state.snapshot.now) or state.array_room.cap_reason(turn.job) or NEXT


def refuse_impossible(state: PassState, turn: Turn) -> StageResult:
    return state.requirements.impossible_reason(turn.job, turn.requirements) or NEXT


def check_quota(state: PassState, turn: Turn) -> StageResult:
    """Keep the options that the owners' quotas and budgets still pay for."""
    if not state.has_limits:
        return NEXT
    options = turn.requirements.options
    shortages = [quota_shortage(state, turn.job, option) for option in options]
    turn.options = [o for o, short in zip(options, shortages, strict=True) if short is None]
    if turn.options:
        return NEXT
    state.bypasses.waits_for_quota(turn.job)
    if waits := stop_within_quota(state, turn):
        return waits
    if turn.is_overdue:
        state.quota_reservations.reserve(turn.job, options)
    return shortages[0] or NEXT


def stop_within_quota(state: PassState, turn: Turn) -> Reason | None:
    """Hold a place for urgent work in a full quota that less urgent work of its owner gives up."""
    job = turn.job
    own = state.candidates.within_quota(job)
    key = (job.project, job.user, job.priority, turn.requirements.equivalence_key)
    if not own or key in state.full_quotas:
        return None
    options, _ = state.quota_reservations.allowed_options(job, turn.requirements.options)
    others = [*state.candidates.stopping, *state.candidates.for_job(job, turn.rank)]
    mark = state.ledger.mark()
    choice = make_quota_room(
        *(job, options, state.ledger, own, others),
        is_short=lambda option: quota_shortage(state, job, option) is not None,
    )
    if choice is None:
        state.full_quotas.add(key)
        return None
    state.begin_devices(turn)
    return _keep_place(state, turn, choice, [], mark)


def respect_reserved_quota(state: PassState, turn: Turn) -> StageResult:
    """Keep the options whose quota is not reserved for a job that was bypassed too often."""
    turn.options, ahead = state.quota_reservations.allowed_options(turn.job, turn.options)
    if turn.options:
        return NEXT
    state.bypasses.waits_for_quota(turn.job)
    return quota_reserved_reason(ahead)


# Devices.


def enter_devices(state: PassState, turn: Turn) -> StageResult:
    """From here on the job waits for devices, if it waits."""
    turn.wants_devices = True
    if state.blocked and state.policy.backfill is BackfillMode.NONE:
        return BEHIND_OTHERS
    return NEXT


def recall_failure(state: PassState, turn: Turn) -> StageResult:
    """The reason, if an equal request has found no place already."""
    key: tuple[object, ...] = turn.requirements.equivalence_key
    if len(turn.options) < len(turn.requirements.options):
        # With fewer options it finds other places.
        key = (*key, *turn.options)
    if state.reclaim.can_reclaim:
        # Reclaim depends on the project.
        key = (*key, turn.job.project)
    if reason := state.failures.get(key):
        return reason
    state.begin_devices(turn)
    # A job that ends before a reservation begins may find a place where a longer one did not.
    if reason := state.failures.get((*key, len(turn.overlapping))):
        return reason
    turn.failure_key = key
    return NEXT


def place(state: PassState, turn: Turn) -> StageResult:
    """Start the job, or hold a place for it until merges or stopping jobs are done."""
    if turn.job.is_releasing:
        # With its own devices it may start larger. Equal requests have no such reason.
        turn.failure_key = None
        return OWN_DEVICES
    if turn.job.sizes:
        choose_size(state, turn)
    can_merge = state.policy.merge and state.ledger.has_idle
    for merging in (False, True) if can_merge else (False,):
        for option in turn.options:
            placement = find_undelayed(state, turn, option, merging=merging)
            if placement is not None:
                return _take(state, turn, placement, merging=merging)
    return NEXT


def respect_reservations(state: PassState, turn: Turn) -> StageResult:
    """There was a place, but taking it would have delayed a reserved start."""
    return waits_for_reservation(turn.conflict) if turn.conflict else NEXT


def stop_others(state: PassState, turn: Turn) -> StageResult:
    """Hold a place that running jobs give up for this one, or are giving up already."""
    mark = state.ledger.mark()
    choice, moved = _choose_stops(state, turn)
    if choice is None:
        return NEXT
    return _keep_place(state, turn, choice, moved, mark) or NEXT


def _keep_place(
    state: PassState,
    turn: Turn,
    choice: PreemptionChoice,
    moved: list[PreemptibleJob],
    mark: int,
) -> Reason | None:
    """Stop these jobs, and keep the place that the ledger holds until they are gone. None if that
    would delay a reservation: then the ledger is as it was at `mark`."""
    job = turn.job
    leaving = [*choice.stops, *moved]
    released = [a for each in leaving if (a := state.allocated.get(each.run.job.id))]
    if state.reservations.admit(turn.starting, choice.placement, released) is not None:
        state.ledger.rollback(mark)
        return None
    for each in leaving:
        state.allocated.pop(each.run.job.id, None)
    state.candidates.mark_stopping(leaving)
    state.stopping.add(leaving)
    state.reclaim.mark_stopping(leaving)
    _occupy(state, turn, choice.placement)
    _merge(state, job, choice.placement)
    state.preemptions += [
        Preemption(each.run.job.id, job.id, each.cause)
        for each in choice.stops
        if not each.run.stopping
    ]
    state.preemptions += [
        Preemption(each.run.job.id, job.id, PreemptionCause.MOVE) for each in moved
    ]
    return waits_for_stops(leaving)


def explain_shortage(state: PassState, turn: Turn) -> StageResult:
    return explain(turn.job, turn.options, state.ledger, _can_place)


STAGES: tuple[Stage, ...] = (
    # Admission: whether the job takes part in this pass, and with which options.
    skip_not_due,
    refuse_impossible,
    check_quota,
    respect_reserved_quota,
    # Devices: where it runs.
    enter_devices,
    recall_failure,
    place,
    respect_reservations,
    stop_others,
    explain_shortage,
)


def _take(state: PassState, turn: Turn, placement: GangPlacement, *, merging: bool) -> StageResult:
    job = turn.job
    _occupy(state, turn, placement)
    if blocking := state.stopping.blocking(job, placement):
        _merge(state, job, placement)
        return waits_for_stops(blocking)
    if merging:
        # Idle slices are deleted first, for this job or one before it; the ledger keeps the place.
        _merge(state, job, placement)
        return repartition_reason()
    replicas = tuple(placement.replicas)
    state.placements.append(JobPlacement(job.id, replicas, placement_message(placement)))
    device = replicas[0].devices[0]
    state.bypasses.started(job, state.ledger.gpus[device.gpu].board.key)
    return STARTED


def _occupy(state: PassState, turn: Turn, placement: GangPlacement) -> None:
    job, replicas = turn.job, tuple(placement.replicas)
    state.allocated[job.id] = replace(turn.starting, replicas=replicas)
    state.array_room.enter(job)
    units = sum(device.units for replica in replicas for device in replica.devices)
    host = (job.replicas * job.cpu_milli, job.replicas * job.memory_mib)
    seconds = max(0, job.time_limit_seconds - job.attained_seconds)
    state.shares.charge(job.project, job.user, units, *host, seconds)


def _choose_stops(
    state: PassState, turn: Turn
) -> tuple[PreemptionChoice | None, list[PreemptibleJob]]:
    """Whom to stop, and whom to move. The cheapest way first: reclaim lent quota, then stop as many
    as give the GPUs in number and move others together, then stop more, then move on top."""
    job, options = turn.job, turn.options
    if choice := _reclaim(state, turn):
        return choice, []
    candidates = [*state.candidates.stopping, *state.candidates.for_job(job, turn.rank)]
    if state.policy.moves:
        enough = enough_by_gpu_count(job, options, state.ledger, candidates)
        choice, moved = _stop_or_move(state, turn, enough)
        if choice is not None:
            return choice, moved
    if choice := make_room(job, options, state.ledger, candidates):
        return choice, []
    return _stop_or_move(state, turn, candidates) if state.policy.moves else (None, [])


def _reclaim(state: PassState, turn: Turn) -> PreemptionChoice | None:
    """Lent quota comes back from borrowers, unless jobs that stop already leave enough."""
    if not state.reclaim.can_reclaim:
        return None
    stopping = state.candidates.stopping
    if choice := make_room(turn.job, turn.options, state.ledger, stopping):
        return choice
    return state.reclaim.make_room(turn.job, turn.options, stopping)


def _stop_or_move(
    state: PassState, turn: Turn, stops: Sequence[PreemptibleJob]
) -> tuple[PreemptionChoice | None, list[PreemptibleJob]]:
    """Room if at most `stops` stop; if that leaves no place, smaller jobs also move."""
    job, options = turn.job, turn.options
    if choice := make_room(job, options, state.ledger, stops):
        return choice, []
    movers = state.candidates.movers(job, state.requirements.gpus, stops)
    if not movers:
        return None, []
    found = make_room_by_moving(
        *(job, options, state.ledger, stops, movers),
        options_of=state.requirements.options,
        max_moves=state.policy.moves,
    )
    return found or (None, [])


def _stay_behind(state: PassState, turn: Turn, reason: Reason) -> None:
    """Remember a job that found no devices. The first blocked jobs and overdue ones get a
    reservation; a job that holds a place already, until merges or stops are done, needs none."""
    job = turn.job
    state.bypasses.waits_for_devices(job, turn.requirements.boards)
    is_allocated = job.id in state.allocated
    if turn.failure_key is not None:
        if reason.code is ReasonCode.RESERVATION:
            state.failures[*turn.failure_key, len(turn.overlapping)] = reason
        elif not is_allocated:
            state.failures[turn.failure_key] = reason
    if is_allocated:
        return
    state.blocked.append(job.id)
    if len(state.reservations.entries) < state.max_reservations(turn):
        seconds = max(1, job.time_limit_seconds - job.attained_seconds)
        state.reservations.reserve(job, turn.rank, turn.options, seconds)


def _merge(state: PassState, job: WaitingJob, placement: GangPlacement) -> None:
    """Ask to delete the idle slices that are ready; others are being made or deleted already."""
    if not placement.merges:
        return
    views = {s.id: s for node in state.snapshot.nodes for g in node.gpus for s in g.slices}
    for gpu, slices in sorted(placement.merges.items()):
        ready = tuple(sorted(s for s in slices if views[s].ready))
        if ready:
            state.merges.append(Merge(gpu, ready, job.id))


def _can_place(job: WaitingJob, option: DeviceOption, ledger: Ledger) -> bool:
    return find_placement(job, option, ledger) is not None
