"""The node's own checks of a replica, which do not rely on the portal's.

MPS shares are checked by `agents.mps.refusals`, partitions by `agents.partitioning.diff`.
"""

from collections.abc import Collection, Container, Iterable

from agents.admission.gang_networks import gang_network_refusal
from agents.admission.policy import NodePolicy
from agents.combinations.combination import CombinationVerdict
from agents.combinations.shape import replica_shape
from agents.combinations.table import matching
from agents.contract.documents import DesiredReplica, NodeFacts, RuntimeKind
from agents.facts.failures import ReplicaFailure
from agents.launchers.base import LaunchRequest
from agents.launchers.registry import LAUNCHERS, launch_refusal

NO_FACTS = NodeFacts()


def local_refusal(
    replica: DesiredReplica, policy: NodePolicy, runtime: RuntimeKind
) -> ReplicaFailure | None:
    """Why this node will not run the replica, or None. Pure."""
    return _policy_refusal(replica, policy, runtime) or combination_refusal(replica)


def _policy_refusal(
    replica: DesiredReplica, policy: NodePolicy, runtime: RuntimeKind
) -> ReplicaFailure | None:
    if why := policy.refusal(replica, runtime):
        return ReplicaFailure("policy", why)
    if runtime is RuntimeKind.PROCESS and LAUNCHERS[replica.launcher].keeps_entrypoint:
        why = "this node runs plain processes, which have no image with a program of its own"
        return ReplicaFailure("policy", f"{why}: choose launcher none")
    if runtime is RuntimeKind.PROCESS and LAUNCHERS[replica.launcher].chooses_devices:
        why = (
            f"this node runs plain processes, and {replica.launcher} would give them its first GPUs"
        )
        return ReplicaFailure("policy", f"{why}: choose launcher torchrun")
    return None


def combination_refusal(replica: DesiredReplica) -> ReplicaFailure | None:
    """What of it does not go together, or what its launcher cannot start; None if all is well.
    Pure."""
    shape = replica_shape(replica)
    for row in matching(shape, CombinationVerdict.REFUSE):
        why = row.sentence(shape)
        return ReplicaFailure(str(row.code), why.text, why)
    if found := launch_refusal(replica.launcher, LaunchRequest.of_replica(replica)):
        return ReplicaFailure("launcher", found.why.text, found.why)
    return None


def _network_refusal(replica: DesiredReplica, facts: NodeFacts) -> ReplicaFailure | None:
    if not replica.gang_network:
        return None
    why = gang_network_refusal(replica, facts.overlay, facts.address)
    return ReplicaFailure("gang_network", why) if why else None


def local_refusals(
    replicas: Collection[DesiredReplica],
    begun: Container[str],
    policy: NodePolicy,
    runtime: RuntimeKind,
    facts: NodeFacts = NO_FACTS,
) -> dict[str, ReplicaFailure]:
    """The replicas, by id, that this node will not run. Pure. `begun`: ids of those that have
    started here: a newer agent's rules about combinations do not end them. `facts`: of this node,
    for gangs that it shares with others."""
    refused = {}
    for replica in replicas:
        if replica.unreadable:
            continue
        failure = _policy_refusal(replica, policy, runtime)
        if failure is None and replica.id not in begun:
            failure = combination_refusal(replica) or _network_refusal(replica, facts)
        if failure:
            refused[replica.id] = failure
    return refused | unreadable_refusals(replicas, begun)


def disk_refusals(
    replicas: Iterable[DesiredReplica], present: Container[str], disk_mib: int | None
) -> dict[str, ReplicaFailure]:
    """The new replicas, by id, for which this node has not enough disk. Pure.

    `present`: ids of replicas that are on the node already; they keep their disk, even if the node
    has less by now. `disk_mib`: what jobs may use together, None if unknown."""
    with_disk = [replica for replica in replicas if replica.disk_mib]
    in_use = sum(replica.disk_mib for replica in with_disk if replica.id in present)
    refusals = {}
    for replica in with_disk:
        if replica.id in present:
            continue
        if in_use + replica.disk_mib <= (disk_mib or 0):
            in_use += replica.disk_mib
        else:
            has = f"this node has {disk_mib} MiB"
            if disk_mib is None:
                has = "how much this node has is unknown"
            why = f"{replica.disk_mib} MiB of disk requested beside {in_use} MiB in use; {has}"
            refusals[replica.id] = ReplicaFailure("disk", why)
    return refusals


def unreadable_refusals(
    replicas: Iterable[DesiredReplica], present: Container[str]
) -> dict[str, ReplicaFailure]:
    """The new replicas, by id, that a newer portal describes in words that this agent does not
    know. Pure. `present`: ids of replicas that have started here; they go on as they are."""
    return {
        replica.id: ReplicaFailure(
            "unreadable", f"this agent is older than the portal: {replica.unreadable}"
        )
        for replica in replicas
        if replica.unreadable and replica.id not in present
    }
