"""The stop of a replica that may have a share."""

from agents.host.processes import handles_sigterm
from agents.mps.shares import NodeShares
from agents.runtime.base import Runtime


def stop_replica(runtime: Runtime, shares: NodeShares, replica_id: str, grace_seconds: int) -> None:
    """A client of MPS that a signal ends in the middle of a kernel takes its neighbours with it, so
    it is disconnected first: before a SIGTERM that nobody in its container handles, and before
    SIGKILL. Returns once the replica has ended."""
    if not shares.has_share(replica_id):
        runtime.stop(replica_id, grace_seconds)
        return

    def disconnect() -> None:
        shares.disconnect(replica_id, runtime.processes(replica_id))

    if not any(map(handles_sigterm, runtime.processes(replica_id))):
        disconnect()
    runtime.stop(replica_id, grace_seconds, disconnect)
