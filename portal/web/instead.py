"""What a request could be instead, beside the form: each tried by the planner, one button each."""

import json
from collections.abc import Callable

from portal.web.telling import here
from scheduler.core.placement.capacity import Capacity
from scheduler.core.placement.wants import gpu_board
from scheduler.core.reasons import ReasonCode
from scheduler.core.values import ClusterSnapshot, WaitingJob
from scheduler.core.why.alternatives import ALTERABLE, alternatives

# The panel is asked while one types: no more than so many changes are tried.
MOST_TRIED = 12
# In words, and the fields of the request that it changes, as JSON.
Offer = tuple[str, str]


def startable(
    wanted: WaitingJob,
    code: ReasonCode,
    snapshot: ClusterSnapshot,
    can_start: Callable[[WaitingJob], bool],
) -> list[Offer]:
    """What would start now, where the request would wait for this reason."""
    return _offers(wanted, snapshot, can_start) if code in ALTERABLE else []


def runnable(wanted: WaitingJob, snapshot: ClusterSnapshot) -> list[Offer]:
    """What could run here at all, where the request never can."""
    capacity = Capacity(snapshot)

    def can_run(job: WaitingJob) -> bool:
        return not (capacity.impossible(job) or capacity.over_quota(job))

    return _offers(wanted, snapshot, can_run)


def _offers(
    wanted: WaitingJob, snapshot: ClusterSnapshot, can: Callable[[WaitingJob], bool]
) -> list[Offer]:
    boards = {gpu_board(gpu) for node in snapshot.nodes for gpu in node.gpus}
    in_order = sorted(boards, key=lambda board: board.key)
    found = alternatives(wanted, in_order, can, tried=MOST_TRIED)
    return [(here(one.said), json.dumps(one.changes, sort_keys=True)) for one in found]
