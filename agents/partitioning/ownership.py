"""Which MIG instances on the node are the agent's own, and which are foreign. Pure.

An instance is the agent's own if one is desired at exactly its place, or if the journal has a claim
to it. A claim is written before the instance is created, so an agent that is killed in between
finds its own instance again. Two programs that both partition a GPU undo each other's work forever,
so a GPU with a foreign instance is left alone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from agents.facts.device_keys import InstancePlace
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.facts.partitions import InstanceClaim, PartitionProblem, instance_place
from agents.partitioning.steps import WantedSlice


@dataclass(frozen=True, slots=True)
class Ownership:
    """The verdict on every instance of the node."""

    # New or changed claims to the agent's own instances, to write down.
    claims: tuple[InstanceClaim, ...] = ()
    # By GPU UUID, the instances that others created, in order of start.
    foreign: Mapping[str, tuple[InstanceFacts, ...]] = field(default_factory=dict)


def judge_ownership(
    live: Iterable[InstanceFacts],
    desired: Iterable[WantedSlice],
    claims: Mapping[InstancePlace, InstanceClaim],
    *,
    adopt: bool = False,
) -> Ownership:
    """Judge every instance. `adopt`: the node's owner lets the agent take over all of them."""
    places = {(w.gpu_uuid, w.start, w.size, w.profile) for w in desired}
    written: list[InstanceClaim] = []
    foreign: dict[str, list[InstanceFacts]] = {}
    for instance in sorted(live, key=lambda i: (i.gpu_uuid, i.start)):
        claim = claims.get(instance_place(instance))
        known = claim is not None and claim.covers(instance)
        if not (adopt or known or (*instance_place(instance), instance.profile) in places):
            foreign.setdefault(instance.gpu_uuid, []).append(instance)
            continue
        fresh = claim_for(instance)
        if fresh != claim:
            written.append(fresh)
    return Ownership(tuple(written), {gpu: tuple(found) for gpu, found in foreign.items()})


def unmanaged_problems(gpus: Collection[GpuFacts], ownership: Ownership) -> list[PartitionProblem]:
    """One problem for each GPU with foreign instances."""
    indexes = {gpu.uuid: gpu.index for gpu in gpus}
    return [
        PartitionProblem(uuid, "unmanaged", _sentence(indexes.get(uuid, 0), instances))
        for uuid, instances in ownership.foreign.items()
    ]


def claim_for(instance: InstanceFacts) -> InstanceClaim:
    return InstanceClaim(
        instance.gpu_uuid,
        instance.start,
        instance.size,
        instance.profile,
        instance.instance_id,
        instance.uuid,
    )


def _sentence(index: int, instances: Iterable[InstanceFacts]) -> str:
    names = ", ".join(f"{i.profile} at {i.start} (instance {i.instance_id})" for i in instances)
    return (
        f"unmanaged: GPU {index} has {names}, which this agent did not create. Delete them with"
        f" nvidia-smi mig -i {index} -dci && nvidia-smi mig -i {index} -dgi,"
        " or set adopt_instances = true in the node's policy"
    )
