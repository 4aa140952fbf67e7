"""What ended a replica: its program, or the lease, the agent, the engine or the node. Pure.

A program that saves its work on SIGTERM and exits with 0 looks the same in both cases; but in the
second one its work is not done. So an end counts as the program's own only where that is shown.
"""

from agents.contract.end_causes import EndCause, ExcessCause, read_cause
from agents.facts.ends import REQUESTED, RunRecord, StopRecord
from agents.facts.failures import ReplicaFailure
from agents.runtime.base import ContainerStatus

# The clocks of the agent, the engine and the file system differ by less than this.
CLOCK_SECONDS = 1.0


def end_cause(
    status: ContainerStatus,
    *,
    run: RunRecord | None,
    stop: StopRecord | None,
    boot_id: str,
    serving_since: float,
) -> EndCause | ExcessCause | None:
    """What ended a replica around it, or its excess; None if it ended by itself, or was stopped on
    request.

    `run`: None if an older agent started it. `serving_since`: as of the runtime. The first to act
    counts: what the lease's end stopped is that, also if the node is shut down before it has ended.
    """
    if status.finished_at is None:
        raise ValueError(f"{status.replica} has not ended")
    if stop is not None and status.finished_at >= stop.at - CLOCK_SECONDS:
        return None if stop.cause == REQUESTED else read_cause(stop.cause)
    if run is not None and run.boot_id != boot_id:
        return EndCause.NODE_RESTARTED
    if status.finished_at < serving_since:
        return EndCause.ENGINE_RESTARTED
    return None


def end_failure(cause: EndCause | ExcessCause) -> ReplicaFailure:
    """As it is reported."""
    return ReplicaFailure(str(cause), cause.message.text, cause.message)
