"""What becomes of recorded jobs in a simulation, and what they request together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.virtual.values import RecordedJob


@dataclass(slots=True)
class JobOutcome:
    recorded: RecordedJob
    remaining_seconds: int
    """Useful running time that is left."""
    done_seconds: int
    """Useful running time, including what it had attained before the window."""
    queued_at: int = 0
    waited_seconds: int = 0
    """In the queue, in all; grows while it waits."""
    started_at: int = 0
    """The last start; 0: it never started."""
    ended_at: int = 0
    run: int = 0
    """Goes up at each start and stop; 0: it never started."""
    restart_seconds: int = 0
    """Seconds at the beginning of this run that are not useful."""
    stops: int = 0
    """How often it was preempted."""
    bypassed: int = 0
    refused: bool = False
    withdrawn: bool = False


def demand_mix(jobs: Iterable[RecordedJob]) -> DemandMix:
    """The requests of these jobs, replica by replica, most frequent first."""
    counts: Counter[tuple[DeviceRequest, int, int]] = Counter()
    for recorded in jobs:
        job = recorded.job
        counts[job.device, job.cpu_milli, job.memory_mib] += job.replicas
    in_order = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    return DemandMix(tuple(Demand(*what, number) for what, number in in_order))
