"""Builders of planner snapshots: `plan_of(a_cluster(a_node(a_gpu()), jobs=[a_job()]))`."""

import json
from dataclasses import asdict, replace

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import (
    ClusterSnapshot,
    DeviceRequest,
    GpuView,
    Isolation,
    NodeView,
    Priority,
    QuotaView,
    SliceView,
    WaitingJob,
)
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.legality import reserve_if_legal
from scheduler.core.plan import plan

H200 = "H200-141GB"
A30 = "A30-24GB"
L40S = "L40S-48GB"
NOW = 1_000_000


def a_slice(profile="2g.35gb", start=0, *, board=H200, allocated=True, ready=True, id=""):
    """A slice. Profile "" is the whole GPU."""
    known = known_boards()[board]
    kind = SliceKind.MIG if profile else SliceKind.GPU
    size = known.profile(profile).memory_slices if profile else known.memory_slices
    key = id or f"{profile or 'gpu'}@{start}"
    return SliceView(key, kind, profile, start, size, allocated=allocated, ready=ready)


def idle(profile="2g.35gb", start=0, **fields):
    return a_slice(profile, start, **{"allocated": False} | fields)


def a_share(threads=25, memory_mib=10_000, *, project="p", clients=1, board=H200, id=""):
    """An allocated MPS share."""
    size = known_boards()[board].memory_slices
    key = id or f"mps-{threads}-{memory_mib}"
    return SliceView(
        *(key, SliceKind.MPS, "", 0, size),
        allocated=True,
        ready=True,
        threads=threads,
        memory_mib=memory_mib,
        clients=clients,
        project=project,
    )


def a_gpu(*slices, board=H200, healthy=True, mode=None, numa=None):
    """A GPU. Its mode follows from its slices unless given; its node sets its id and index."""
    known = known_boards().get(board)
    modes = {SliceKind.MIG: GpuMode.MIG, SliceKind.MPS: GpuMode.MPS, SliceKind.GPU: GpuMode.WHOLE}
    return GpuView(
        id="g",
        index=0,
        board=board,
        product_name=known.product_names[0] if known else board,
        memory_mib=known.memory_mib if known else 16_384,
        mode=mode or (modes[slices[0].kind] if slices else GpuMode.WHOLE),
        healthy=healthy,
        slices=tuple(slices),
        numa_node=numa,
    )


def a_node(*gpus, name="n1", **fields):
    """A node. GPUs and slices get ids of their own, below the node's name."""
    own = tuple(_below(name, index, gpu) for index, gpu in enumerate(gpus))
    values = {
        "available": True,
        "fabric": "f",
        "cpu_free_milli": 64_000,
        "memory_free_mib": 512_000,
        "cpu_total_milli": 64_000,
        "memory_total_mib": 512_000,
        "share_clients": 48,
    }
    return NodeView(id=name, name=name, gpus=own, **values | fields)


def away(*gpus, name="n1", because=""):
    return a_node(*gpus, name=name, available=False, unavailable_reason=because or f"{name} lost")


def a_job(id="1", **fields):
    """One replica with one 2g.35gb, unless `mig`, `gpus`, `device_mib` or `mps` (threads, MiB) says
    otherwise."""
    asked = {field: fields.pop(name) for name, field in _WAYS.items() if name in fields}
    if "mps" in fields:
        threads, memory = fields.pop("mps")
        asked |= {"mps_threads": threads, "mps_memory_mib": memory, "isolation": Isolation.ANY}
    device = asked or {"mig": "2g.35gb"}
    device |= {name: fields.pop(name) for name in ("models", "isolation") if name in fields}
    values = {
        "name": f"job-{id}",
        "project": "p",
        "user": "u",
        "priority": Priority.NORMAL,
        "queued_at": NOW - 100,
        "replicas": 1,
        "device": DeviceRequest(**device),
        "cpu_milli": 1_000,
        "memory_mib": 1_024,
    }
    return WaitingJob(id=str(id), **values | fields)


_WAYS = {"gpus": "gpus", "mig": "mig", "device_mib": "memory_mib"}


def a_quota(project="p", user="", *, gpus, used=0):
    """A quota in GPUs: limits and use may be fractions whose units are whole."""
    return QuotaView(project, user, round(gpus * UNITS_PER_GPU), round(used * UNITS_PER_GPU))


def a_cluster(*nodes, jobs=(), quotas=(), running=(), **fields):
    many = {"jobs": tuple(jobs), "quotas": tuple(quotas), "running": tuple(running)}
    return ClusterSnapshot(now=NOW, nodes=nodes, **many, **fields)


def plan_of(snapshot, **policy):
    return plan(snapshot, Policy(**policy))


def placed(found):
    """The ids of the placed jobs, in the order of the pass."""
    return [place.job for place in found.placements]


def devices(found, job="1"):
    """Where a placed job is: (GPU, profile, start) of every device, by rank."""
    (place,) = (p for p in found.placements if p.job == job)
    return [(d.gpu, d.profile, d.start) for r in place.replicas for d in r.devices]


def reason(found, job="1"):
    """The reason of a deferral. Fails if the job is not deferred."""
    (deferral,) = (d for d in found.deferrals if d.job == job)
    return deferral.reason


def as_bytes(found):
    """The plan as it would be written: keys in the order that they were made in."""
    return json.dumps(asdict(found)).encode()


def _below(name, index, gpu):
    slices = tuple(replace(s, id=f"{name}/{index}/{s.id}") for s in gpu.slices)
    return replace(gpu, id=f"{name}/{index}", index=index, slices=slices)


def illegal_reason(
    placement: JobPlacement, job: WaitingJob, snapshot: ClusterSnapshot
) -> Reason | None:
    """The first obstacle to this placement on the cluster as it is; None if there is none."""
    return reserve_if_legal(placement, job, Ledger(snapshot))
