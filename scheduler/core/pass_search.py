"""How a turn looks for devices: places that delay no reservation, and how large a gang starts.

A gang of several sizes starts with as many replicas as are free. Only its least size waits: it
alone gets a reservation, reclaims or preempts, and has reasons. A larger one takes what is free and
promised to nobody.
"""

from copy import copy
from dataclasses import replace

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.pass_state import PassState, Turn
from scheduler.core.placement.fleet import fleet_of
from scheduler.core.placement.legality import quota_reason
from scheduler.core.placement.search import GangPlacement, find_placement
from scheduler.core.queue.reservation import reserve_placement, without_reserved


def quota_shortage(state: PassState, job: WaitingJob, option: DeviceOption) -> Reason | None:
    if not state.has_limits:
        return None
    return quota_reason(job, option.replica_units * job.replicas, state.ledger, option.board)


def find_undelayed(
    state: PassState, turn: Turn, option: DeviceOption, *, merging: bool
) -> GangPlacement | None:
    """A placement, held on the ledger, that delays no reservation. If there is none, `conflict` of
    the turn is the first reservation in the way, if any was."""
    job, mark = turn.job, state.ledger.mark()
    placement = state.stopping.find_placement(job, option, merging=merging)
    if placement is None or not turn.overlapping:
        return placement
    conflict = state.reservations.admit(turn.starting, placement)
    if conflict is None:
        return placement
    state.ledger.rollback(mark)
    with without_reserved(state.ledger, turn.overlapping):
        placement = find_placement(job, option, state.ledger, merging=merging)
    if placement is None or state.reservations.admit(turn.starting, placement) is not None:
        turn.conflict = turn.conflict or conflict
        return None
    reserve_placement(state.ledger, job, placement)
    return placement


def starts_at_once(state: PassState, turn: Turn, option: DeviceOption) -> bool:
    """Whether the job has a place that delays nobody and where it waits for nobody. The pass stays
    as it is."""
    mark = state.ledger.mark()
    with state.reservations.trial():
        placement = find_undelayed(state, turn, option, merging=False)
        starts = placement is not None and not state.stopping.blocking(turn.job, placement)
    state.ledger.rollback(mark)
    return starts


def choose_size(state: PassState, turn: Turn) -> None:
    """Give the job of this turn the largest of its sizes that starts at once, and the option that
    serves it; leave both as they are if its least size alone would start, or none."""
    if not any(starts_at_once(state, turn, option) for option in turn.options):
        return
    least, most = turn.job.sizes[0], turn.job.sizes[-1]
    fleet = fleet_of(state.ledger)
    room = {o: fleet.most_replicas(turn.job, o, most) for o in turn.options}
    for size in reversed(turn.job.sizes):
        for option in turn.options if size > least else ():
            if size > room[option] or not _pays_for(state, turn.job, option, size):
                continue
            larger = copy(turn)
            larger.job = replace(turn.job, replicas=size)
            larger.starting = replace(turn.starting, job=larger.job)
            if starts_at_once(state, larger, option):
                turn.job, turn.starting, turn.options = larger.job, larger.starting, [option]
                return


def _pays_for(state: PassState, job: WaitingJob, option: DeviceOption, size: int) -> bool:
    """Whether quotas and budgets allow this many replicas."""
    return quota_shortage(state, replace(job, replicas=size), option) is None
