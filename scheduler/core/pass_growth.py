"""Gangs of several sizes that run and could have more replicas: at most one grows in a pass.

It stops, with its grace period, and is queued again at its position, where it starts with as many
as are free. That costs what it has not saved and a start of its program, so it has to be worth it,
and nobody who waits may want the devices.
"""

from dataclasses import replace

from scheduler.core.model.decisions import Resize
from scheduler.core.model.snapshot import RunningJob
from scheduler.core.pass_search import quota_shortage, starts_at_once
from scheduler.core.pass_state import PassState

# So long it has run at its size before it grows; and more than this is left of its time limit.
GROW_SECONDS = 30 * 60


def growing_gang(state: PassState) -> Resize | None:
    """For a pass over the whole queue that gives no device to anybody."""
    if state.placements or state.preemptions or state.merges:
        return None
    # One without replicas is at a site that schedules by itself.
    runs = [run for run in state.snapshot.running if run.job.sizes and run.replicas]
    if not runs or any(run.stopping for run in state.snapshot.running):
        return None
    may_grow = (run for run in runs if _may_grow(run, state.snapshot.now))
    in_turn = sorted(may_grow, key=lambda run: (run.started_at, run.job.id))
    found = (_next_size(state, run) for run in in_turn)
    return next(filter(None, found), None)


def _may_grow(run: RunningJob, now: int) -> bool:
    has_more = run.job.replicas < run.job.sizes[-1]
    is_old = now - run.started_at >= GROW_SECONDS
    return has_more and run.has_saved and is_old and run.ends_at - now > GROW_SECONDS


def _next_size(state: PassState, run: RunningJob) -> Resize | None:
    """The next larger size, if it would start at once on what the gang has and on devices that
    nobody waits for."""
    size = next(size for size in run.job.sizes if size > run.job.replicas)
    larger = replace(run.job, replicas=size)
    turn = state.last_turn(larger)
    if state.bypasses.has_short(larger.project):
        return None
    state.begin_devices(turn)
    mark = state.ledger.mark()
    state.ledger.release(run.job, run.replicas)
    grows = any(
        quota_shortage(state, larger, option) is None and starts_at_once(state, turn, option)
        for option in turn.options
        if not state.bypasses.board_has_queue(option.board)
    )
    state.ledger.rollback(mark)
    return Resize(run.job.id, run.job.replicas, size) if grows else None
