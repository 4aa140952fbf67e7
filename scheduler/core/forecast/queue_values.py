"""The queue as the forward simulation sees it. Times in seconds; amounts in 1/56,000 GPU."""

from dataclasses import dataclass

from scheduler.core.forecast.hazard import Floats
from scheduler.core.model.policy import BackfillMode


@dataclass(frozen=True, slots=True)
class RunningEntry:
    """A running job."""

    places: tuple[tuple[int, int], ...]
    """(index of node, units)."""
    age: float
    """Its useful running time so far."""
    limit: float
    """Its whole time limit."""
    curve: int = -1
    """The row of its hazard in QueueState.curves; -1: its limit is believable."""
    stopping: bool = False
    """It is giving its devices back already."""


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """A waiting job, or a past arrival that future arrivals are drawn from."""

    id: str
    queued_at: float
    """Seconds since the epoch."""
    replicas: int
    units: int
    """Of each replica."""
    limit: float
    key: float
    """Its place in the order, without its wait; smallest first."""
    age: float = 0.0
    band: int = 0
    """Band 0 comes before band 1."""
    curve: int = -1
    """As in RunningEntry."""
    pool: int = 0
    """The row of QueueState.pools: the nodes where it may run."""
    begin_at: float = 0.0
    """It starts no earlier; seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """Everything that the simulation of starts depends on."""

    now: float
    total: tuple[int, ...]
    """Units by node."""
    free: tuple[int, ...]
    running: tuple[RunningEntry, ...]
    waiting: tuple[WaitingEntry, ...]
    arrivals: tuple[WaitingEntry, ...] = ()
    """Recent arrivals, oldest first."""
    pools: tuple[tuple[bool, ...], ...] = ()
    """Sets of nodes, one row each."""
    ratios: tuple[tuple[float, float], ...] = ()
    """(limit, run time / limit) of ended runs, oldest first; at least one if a job has curve -1."""
    curves: tuple[Floats, ...] = ()
    """Hazards by bin."""
    ended_runs: int = 0
    """How many ended runs the curves were learned from."""
    backfill: BackfillMode = BackfillMode.EASY
    patience_seconds: float = 0.0
    """A job that waits this long counts as half as large; 0: waiting changes nothing."""
    by_arrival: bool = False
    """First come, first served: times stand for keys."""
