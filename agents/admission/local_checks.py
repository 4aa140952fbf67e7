"""Why this node, by itself, will not run a replica: the portal's word is not enough.

Shares have rules of their own (`agents.mps.refusals`), and so has each partition
(`agents.partitioning.diff`).
"""

from collections.abc import Container, Iterable

from agents.admission.policy import NodePolicy
from agents.contract.collectives import backend_refusal, too_many_processes
from agents.contract.documents import DesiredReplica, RuntimeKind, SliceKind
from agents.facts.failures import ReplicaFailure


def local_refusal(
    replica: DesiredReplica, policy: NodePolicy, runtime: RuntimeKind
) -> ReplicaFailure | None:
    """A code and a sentence, or None where nothing speaks against it. Pure."""
    if why := policy.refusal(replica, runtime):
        return ReplicaFailure("policy", why)
    kinds = [device.kind for device in replica.devices]
    if why := backend_refusal(replica.backend, kinds, replica.world * replica.processes):
        return ReplicaFailure("backend", why)
    gpus = kinds.count(SliceKind.GPU)
    if why := too_many_processes(gpus, replica.processes):
        return ReplicaFailure("processes", f"{why}; this replica is given {gpus}")
    return None


def disk_refusals(
    replicas: Iterable[DesiredReplica], present: Container[str], disk_mib: int | None
) -> dict[str, ReplicaFailure]:
    """The new replicas, by id, that this node has no disk for: what jobs may have of it together is
    `disk_mib`, None where nobody knows. `here`: ids of those that are here already; they keep
    what they have, also where the node has less by now. Pure."""
    wanted = [replica for replica in replicas if replica.disk_mib]
    held = sum(replica.disk_mib for replica in wanted if replica.id in present)
    found = {}
    for replica in wanted:
        if replica.id in present:
            continue
        if held + replica.disk_mib <= (disk_mib or 0):
            held += replica.disk_mib
        else:
            has = f"this node has {disk_mib} MiB"
            if disk_mib is None:
                has = "nobody knows how much this node has"
            why = f"{replica.disk_mib} MiB of disk are asked for beside {held}; {has}"
            found[replica.id] = ReplicaFailure("disk", why)
    return found
