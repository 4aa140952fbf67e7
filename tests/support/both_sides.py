"""Puts the same case to the portal's checks and to the agent's; each answers (code, sentence).

`portal_refusal(privileged=True)` is the portal's refusal of a request, `sent(privileged=True)` the
agent's refusal of a document.
"""

import pytest

from agents.admission.local_checks import disk_refusals, local_refusal
from agents.admission.policy import NodePolicy
from agents.contract.boards import known_boards
from agents.contract.codec import decode, encode
from agents.contract.documents import DesiredDocument, Device, GpuMode, RuntimeKind, SliceKind
from agents.contract.errors import ContractError
from agents.facts.gpus import GpuFacts
from agents.mps.refusals import ShareCapacity, ShareClaim, share_claims, share_refusals
from agents.partitioning.diff import partition_changes
from agents.partitioning.steps import WantedSlice
from agents.runtime.image import CODE as IMAGE_CODE
from agents.runtime.image import image_env_refusal as image_refusal
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, ReplicaPlacement
from scheduler.core.placement.feasibility import infeasible_reason
from scheduler.core.request import InvalidRequest, RequestLimits, parse_request
from tests.support.snapshots import H200, a_cluster, a_job, a_node, illegal_reason
from tests.unit.agents.documents import a_desired, a_replica

GPU = "GPU-1"
MIG, MPS, WHOLE = GpuMode.MIG, GpuMode.MPS, GpuMode.WHOLE
MEMORY = known_boards()[H200].memory_mib
REQUEST = {
    "project": "vision",
    "name": "sum",
    "image": "registry.example/sum:1",
    "command": ["python", "sum.py"],
    "device": {"mig": "2g.35gb"},
}
Told = tuple[str, str]


def portal_refusal(**fields) -> Told:
    """The portal's refusal of a request."""
    with pytest.raises(InvalidRequest) as caught:
        parse_request(REQUEST | fields, RequestLimits(image_allow=("registry.example/*",)))
    (error,) = caught.value.errors
    return str(error.code), f"{error.field}: {error.sentence}"


def never(*gpus, **fields) -> Told:
    """The portal's refusal, at submit, of a job that none of these GPUs can serve."""
    said = infeasible_reason(a_job(**fields), a_cluster(a_node(*gpus, disk_total_mib=1_024)))
    assert said is not None
    return str(said.code), said.sentence


def placed(gpu, *places, **fields) -> Told:
    """Why a placement is illegal; it has one replica for each of `places`."""
    size = {SliceKind.GPU: 8, SliceKind.MPS: 8}
    there = [
        DevicePlacement(
            "n1/0",
            kind,
            profile,
            start,
            size.get(kind) or known_boards()[H200].profile(profile).memory_slices,
            units=1,
            memory_mib=memory,
            threads=threads,
        )
        for kind, profile, start, threads, memory in places
    ]
    ranks = tuple(ReplicaPlacement(rank, "n1", (device,)) for rank, device in enumerate(there))
    said = illegal_reason(
        JobPlacement("1", ranks), a_job("1", replicas=len(ranks), **fields), a_cluster(a_node(gpu))
    )
    assert said is not None
    return str(said.code), said.sentence


def mig(profile, start):
    return (SliceKind.MIG, profile, start, 0, 0)


def share(threads, memory_mib):
    return (SliceKind.MPS, "", 0, threads, memory_mib)


def carved(*places, board=H200, mode=MIG, now=MIG, live=(), held=()) -> Told:
    """The agent's refusal of slices on a GPU that is in mode `now` and should be in `mode`."""
    known = known_boards()[board]
    current = None if not known.supports_mig else now is MIG
    gpu = GpuFacts(0, GPU, known.product_names[0], known.memory_mib, "", None, current, current)
    wanted = [WantedSlice(GPU, *place, id=f"s-{n}") for n, place in enumerate(places)]
    changes = partition_changes([gpu], live, wanted, {GPU: mode}, frozenset(held))
    problem = changes.problems[0]
    assert not changes.steps, "what is refused changes nothing"
    return problem.code, problem.sentence


def shared(*claims, running=()) -> Told:
    """The agent's refusal of the last of these shares."""
    rooms = {("GPU-1", "", 0, 0): ShareCapacity(MEMORY, 48)}
    found = share_refusals(running, claims, rooms, {GPU: MPS})
    (said,) = found.values()
    return str(said.code), said.sentence


def a_claim(replica="r-1", threads=50, memory_mib=70_000, project="p-1", **fields) -> ShareClaim:
    place = {"gpu_uuid": GPU, "profile": "", "start": 0, "size": 8}
    amounts = {"threads": threads, "memory_mib": memory_mib}
    device = Device("a-1", "s-1", SliceKind.MPS, **place, **amounts)
    wanted = a_replica(id=replica, project=project, devices=(device,), **{"processes": 1} | fields)
    (claim,) = share_claims(wanted)
    return claim


def given(policy=None, **fields) -> Told:
    """The agent's refusal of a replica."""
    said = local_refusal(a_replica(**fields), policy or NodePolicy(), RuntimeKind.DOCKER)
    assert said is not None
    return said.code, said.sentence


def crowded(disk_mib, *replicas) -> Told:
    """The agent's refusal of the last of these replicas (id, MiB of disk)."""
    asking = [a_replica(id=key, disk_mib=mib) for key, mib in replicas]
    said = disk_refusals(asking, (), disk_mib)[asking[-1].id]
    return said.code, said.sentence


def sent(**fields) -> Told:
    """The agent's refusal of a document whose first replica has unknown fields."""
    document = encode(a_desired())
    document["replicas"][0] |= fields
    with pytest.raises(ContractError) as caught:
        decode(DesiredDocument, document)
    return str(caught.value.code), f"{caught.value.field}: {caught.value.sentence}"


def built(*env) -> Told:
    """What the agent says of an image with this environment."""
    return IMAGE_CODE, image_refusal(env, a_replica().env)
