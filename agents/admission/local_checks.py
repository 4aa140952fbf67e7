"""Why this node, by itself, will not run a replica: the portal's word is not enough.

Shares have rules of their own (`agents.mps.refusals`), and so has each partition
(`agents.partitioning.diff`).
"""

from collections.abc import Container, Iterable

from agents.admission.policy import Policy
from agents.contract.collectives import backend_refusal, too_many_processes
from agents.contract.documents import DesiredReplica, RuntimeKind, SliceKind
from agents.facts.failures import Failure


def refused(replica: DesiredReplica, policy: Policy, runtime: RuntimeKind) -> Failure | None:
    """A code and a sentence, or None where nothing speaks against it. Pure."""
    if why := policy.refusal(replica, runtime):
        return Failure("policy", why)
    kinds = [device.kind for device in replica.devices]
    if why := backend_refusal(replica.backend, kinds, replica.world * replica.processes):
        return Failure("backend", why)
    gpus = kinds.count(SliceKind.GPU)
    if why := too_many_processes(gpus, replica.processes):
        return Failure("processes", f"{why}; this replica is given {gpus}")
    return None


def short_of_disk(
    replicas: Iterable[DesiredReplica], here: Container[str], disk_mib: int | None
) -> dict[str, Failure]:
    """The new replicas, by id, that this node has no disk for: what jobs may have of it together is
    `disk_mib`, None where nobody knows. `here`: ids of those that are here already; they keep
    what they have, also where the node has less by now. Pure."""
    wanted = [replica for replica in replicas if replica.disk_mib]
    held = sum(replica.disk_mib for replica in wanted if replica.id in here)
    found = {}
    for replica in wanted:
        if replica.id in here:
            continue
        if held + replica.disk_mib <= (disk_mib or 0):
            held += replica.disk_mib
        else:
            has = f"this node has {disk_mib} MiB"
            if disk_mib is None:
                has = "nobody knows how much this node has"
            why = f"{replica.disk_mib} MiB of disk are asked for beside {held}; {has}"
            found[replica.id] = Failure("disk", why)
    return found
