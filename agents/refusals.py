"""Why this node, by itself, will not run a replica: the portal's word is not enough.

Shares have rules of their own (`agents.mps.refusals`), and so has each partition
(`agents.partitioning.diff`).
"""

from agents.contract.backends import crowded, refusal
from agents.contract.documents import DesiredReplica, RuntimeKind, SliceKind
from agents.journal import Failure
from agents.policy import Policy


def refused(replica: DesiredReplica, policy: Policy, runtime: RuntimeKind) -> Failure | None:
    """A code and a sentence, or None where nothing speaks against it. Pure."""
    if why := policy.refusal(replica, runtime):
        return Failure("policy", why)
    kinds = [device.kind for device in replica.devices]
    if why := refusal(replica.backend, kinds, replica.world * replica.processes):
        return Failure("backend", why)
    gpus = kinds.count(SliceKind.GPU)
    if why := crowded(gpus, replica.processes):
        return Failure("processes", f"{why}; this replica is given {gpus}")
    return None
