"""What becomes of a recorded job in a replay, and what all of them ask for."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.virtual.values import RecordedJob


@dataclass(slots=True)
class JobOutcome:
    """What became of a job. `waited_seconds`: in the queue, in all; it grows while it waits.
    `started_at`: the last time it started, 0 where it never did. `run`: goes up at each start and
    stop, 0 where it never started. `left` and `done`: seconds of useful running; `done` begins with
    what it had attained before. `restart`: seconds of this run before it is useful."""

    recorded: RecordedJob
    remaining_seconds: int
    done_seconds: int
    queued_at: int = 0
    waited_seconds: int = 0
    started_at: int = 0
    ended_at: int = 0
    run: int = 0
    restart_seconds: int = 0
    stops: int = 0
    bypassed: int = 0
    refused: bool = False
    withdrawn: bool = False


def demand_mix(jobs: Iterable[RecordedJob]) -> DemandMix:
    """What the jobs of the window ask for, replica by replica, the most frequent first."""
    counts: Counter[tuple[DeviceRequest, int, int]] = Counter()
    for recorded in jobs:
        job = recorded.job
        counts[job.device, job.cpu_milli, job.memory_mib] += job.replicas
    in_order = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    return DemandMix(tuple(Demand(*what, number) for what, number in in_order))
