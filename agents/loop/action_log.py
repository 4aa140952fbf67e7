"""Lines of the agent's log about replicas, which name the job and the request behind them."""

import logging
from collections.abc import Iterable

from agents.contract.calls import ReplicaOrigin
from agents.loop.reconcile import (
    FailReplica,
    ForgetReplica,
    PrepareReplica,
    RemoveReplica,
    ReplicaAction,
    StartReplica,
    StopReplica,
)

# More than a node can have; what an agent does not remember is only left out of a line.
MAX_ORIGINS = 8_192

log = logging.getLogger("agents.loop.actions")


class ActionLog:
    """What was done, in memory only: an agent that has restarted names the replica alone."""

    def __init__(self) -> None:
        self._origins: dict[str, ReplicaOrigin] = {}

    def learn(self, origins: Iterable[ReplicaOrigin]) -> None:
        for origin in origins:
            self._origins[origin.replica] = origin
        while len(self._origins) > MAX_ORIGINS:
            del self._origins[next(iter(self._origins))]

    def fields(self, replica: str) -> dict[str, str]:
        """Of a line about this replica."""
        origin = self._origins.get(replica)
        if origin is None:
            return {"replica": replica}
        return {"replica": replica, "job": origin.job, "request_id": origin.request_id}

    def done(self, action: ReplicaAction) -> None:
        match action:
            case PrepareReplica(replica):
                self._line("replica_prepared", replica.id)
            case StartReplica(replica):
                if replica.rendezvous is not None:
                    self._line("replica_started", replica.id)
            case StopReplica(replica_id):
                self._line("replica_stopped", replica_id)
            case RemoveReplica(replica_id):
                self._line("replica_removed", replica_id)
            case FailReplica(replica_id, failure):
                log.warning(
                    "replica_refused", extra=self.fields(replica_id) | {"code": str(failure.code)}
                )
            case ForgetReplica(replica_id):
                self._origins.pop(replica_id, None)

    def _line(self, event: str, replica: str) -> None:
        log.info(event, extra=self.fields(replica))
