"""The queue as the forward simulation sees it. Times in seconds; amounts in 1/56,000 GPU."""

from dataclasses import dataclass

from scheduler.core.forecast.hazard import Floats
from scheduler.core.model.policy import BackfillMode


@dataclass(frozen=True, slots=True)
class RunningEntry:
    """A running job: (node, units) by index of node, its useful running time so far, and its whole
    limit. `curve`: row of its hazard in QueueState.curves; -1 = its limit is believable.
    `stopping`: it gives its devices back already."""

    places: tuple[tuple[int, int], ...]
    age: float
    limit: float
    curve: int = -1
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """A waiting job, or one of the arrivals that the future is drawn from.

    `units` of each replica; `pool`: row of QueueState.pools, the nodes where it may run; `key`: its
    place in the order without its wait, smallest first; `band`: 0 is before 1. `limit` and `age`
    as in Holding. `queued_at` in seconds since the epoch, and so `begin_at`: not before this time.
    """

    id: str
    queued_at: float
    replicas: int
    units: int
    limit: float
    key: float
    age: float = 0.0
    band: int = 0
    curve: int = -1
    pool: int = 0
    begin_at: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueState:
    """Everything that a forecast of starts rests on.

    `total`, `free`: units by node. `pools`: which nodes, a row each. `waiting`: who is asked about.
    `arrivals`: who came lately, oldest first. `ratios`: (limit, run time / limit) of ended runs,
    oldest first, at least one where a job goes by its limit. `curves`: hazards by bin. `learned`:
    ended runs behind the curves.
    `patience_seconds`: a job that waits this long counts as half as large; 0 where a wait changes
    nothing. `by_arrival`: first come, so times stand for keys.
    """

    now: float
    total: tuple[int, ...]
    free: tuple[int, ...]
    running: tuple[RunningEntry, ...]
    waiting: tuple[WaitingEntry, ...]
    arrivals: tuple[WaitingEntry, ...] = ()
    pools: tuple[tuple[bool, ...], ...] = ()
    ratios: tuple[tuple[float, float], ...] = ()
    curves: tuple[Floats, ...] = ()
    ended_runs: int = 0
    backfill: BackfillMode = BackfillMode.EASY
    patience_seconds: float = 0.0
    by_arrival: bool = False
