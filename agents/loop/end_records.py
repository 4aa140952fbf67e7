"""Writes into the journal what ended replicas, once it is known."""

import logging
from collections.abc import Sequence

from agents.loop.action_log import ActionLog
from agents.loop.ends import end_cause, end_failure
from agents.runtime.base import ContainerPhase, ContainerStatus, Runtime
from agents.state.journal import Journal

log = logging.getLogger("agents.loop.end_records")


def record_ends(
    ended: Sequence[ContainerStatus],
    journal: Journal,
    runtime: Runtime,
    boot_id: str,
    action_log: ActionLog,
) -> None:
    """Also of a replica whose log is still copied: the engine may be stopped before the copy is
    complete. Only then is a failure recorded, since the portal may remove a failed replica."""
    runs, stops = journal.runs(), journal.stops()
    # Read after the containers, so that an engine that is restarted in between is noticed.
    since = runtime.serving_since()
    for status in ended:
        cause = end_cause(
            status,
            run=runs.get(status.replica),
            stop=stops.get(status.replica),
            boot_id=boot_id,
            serving_since=since,
        )
        if cause is None:
            journal.record_own_end(status.replica)
        elif status.phase is ContainerPhase.EXITED:
            fields = action_log.fields(status.replica) | {"why": str(cause)}
            log.info("replica_ended", extra=fields)
            journal.record_failure(status.replica, end_failure(cause))
