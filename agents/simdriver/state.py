"""The simulated node as plain values: GPUs, their instances and processes. Written as JSON.

GPU instance ids follow the heap rule seen on real drivers (boards.json, `simulation`); the driver's
own placement order is the one that public transcripts show.
"""

import uuid
from dataclasses import asdict, dataclass, field
from typing import Any

from agents.contract.boards import Board, known_boards
from agents.simdriver.layouts import FLAT, LAYOUTS, Layout

DRIVER_VERSION = "580.159.03"
NVML_VERSION = "13.580.159.03"
CUDA_VERSION = 13_000
# Single and double bit ECC errors, and XIDs: the bits of nvml.h.
EVENT_TYPES = 0x1 | 0x2 | 0x8
# Compute slices by compute-instance profile id; 7 is that of a 1g with double memory.
COMPUTE_WIDTHS = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 7: 1}


@dataclass
class ComputeInstance:
    """`start` is the compute slice of its GPU instance at which it begins."""

    id: int
    profile_id: int
    uuid: str
    start: int = 0


@dataclass
class GpuInstance:
    """`start` and `size` in memory slices."""

    id: int
    profile_id: int
    start: int
    size: int
    compute: list[ComputeInstance] = field(default_factory=list)


@dataclass
class Process:
    """A client of the GPU; on a MIG device with its instance ids, else None. A monitor that keeps a
    handle open holds the device and is not `listed` among the processes. `began_at` in Unix
    seconds, 0: long ago. `mps`: it is a client of an MPS server."""

    pid: int
    memory_mib: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    listed: bool = True
    began_at: float = 0.0
    mps: bool = False


@dataclass
class Event:
    """What an event set tells: `type` and `data` as in nvml.h, for an XID its number."""

    number: int
    gpu: str
    type: int
    data: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass
class FailNext:
    """The next `left` calls of the symbol `call` answer `code`, and do nothing else."""

    call: str
    code: int
    left: int


@dataclass
class Gpu:
    """`held_by_client`: a monitor or profiler has the whole GPU open, so MIG changes are IN_USE;
    `holders` are the pids of such clients. `reset_refused`: a reset fails, as in many a VM.

    `nvlinks_down` are the numbers of the NVLinks that are wired but do not work.
    `ecc_uncorrected` counts since the last reset; `event_types` is a mask, 0 for a board without
    events; `recovery_action` is what the driver asks for, by the numbers of nvml.h, and so is
    `compute_mode`. `power_limit_mw` is 0 where nobody set one."""

    index: int
    uuid: str
    board: str
    numa_node: int
    mig_current: int = 0
    mig_pending: int = 0
    lost: bool = False
    held_by_client: bool = False
    holders: list[int] = field(default_factory=list)
    reset_refused: bool = False
    instances: list[GpuInstance] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    nvlinks_down: list[int] = field(default_factory=list)
    ecc_uncorrected: int = 0
    ecc_corrected: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    recovery_action: int = 0
    event_types: int = EVENT_TYPES
    persistence: bool = False
    compute_mode: int = 0
    power_limit_mw: int = 0

    @property
    def kind(self) -> Board:
        return known_boards()[self.board]

    @property
    def is_held(self) -> bool:
        """Some client has the whole GPU open."""
        return self.held_by_client or bool(self.holders)

    @property
    def pci_bus_id(self) -> str:
        return f"00000000:{(0x18 + 0x10 * self.index) % 0x100:02X}:00.0"

    def instance(self, instance_id: int) -> GpuInstance | None:
        return next((i for i in self.instances if i.id == instance_id), None)


@dataclass
class Node:
    """`made` counts everything that ever got a UUID here: no UUID is ever given twice.

    `layout` is the name of one of `layouts.LAYOUTS`. `slow`: seconds by symbol or kind of call."""

    seed: int
    gpus: list[Gpu] = field(default_factory=list)
    made: int = 0
    is_root: bool = True
    create_seconds: float = 0.0
    destroy_seconds: float = 0.0
    mode_seconds: float = 0.0
    layout: str = FLAT.name
    fabric_cluster: str = ""
    fabric_clique: int = 0
    events: list[Event] = field(default_factory=list)
    events_made: int = 0
    slow: dict[str, float] = field(default_factory=dict)
    fail_next: list[FailNext] = field(default_factory=list)

    def new_uuid(self, prefix: str) -> str:
        self.made += 1
        space = uuid.uuid5(uuid.NAMESPACE_OID, f"tessera-simdriver-{self.seed}")
        return f"{prefix}-{uuid.uuid5(space, str(self.made))}"


def new_node(*, board: str, gpus: int, seed: int, latency: bool, layout: Layout = FLAT) -> Node:
    """A node of equal boards; in the flat layout on two NUMA nodes. Latencies are the order seen on
    real hardware: creating takes tenths of a second, a mode change whole ones.

    Raises ValueError where the layout is one of another board or number of GPUs."""
    if layout.board not in (None, board) or layout.gpus not in (None, gpus):
        raise ValueError(f"{layout.name} is {layout.gpus} x {layout.board}, not {gpus} x {board}")
    node = Node(seed=seed, layout=layout.name)
    if latency:
        node.create_seconds, node.destroy_seconds, node.mode_seconds = 0.25, 0.15, 0.6
    for index in range(gpus):
        numa = 0 if index < (gpus + 1) // 2 else 1
        numa = layout.place(index, numa).numa
        node.gpus.append(Gpu(index, node.new_uuid("GPU"), known_boards()[board].key, numa))
    return node


def write(node: Node) -> dict[str, Any]:
    return asdict(node)


def read(data: dict[str, Any]) -> Node:
    """Raises ValueError, KeyError, TypeError or AttributeError where it is no node's state."""
    if data.get("layout", FLAT.name) not in LAYOUTS:
        raise ValueError(f"{data['layout']} is no layout of this version")
    gpus = [_gpu(gpu) for gpu in data["gpus"]]
    events = [Event(**event) for event in data.get("events", [])]
    fail_next = [FailNext(**fail) for fail in data.get("fail_next", [])]
    return Node(**{**data, "gpus": gpus, "events": events, "fail_next": fail_next})


def _gpu(data: dict[str, Any]) -> Gpu:
    instances = [_instance(i) for i in data["instances"]]
    processes = [Process(**p) for p in data["processes"]]
    return Gpu(**{**data, "instances": instances, "processes": processes})


def _instance(data: dict[str, Any]) -> GpuInstance:
    compute = [ComputeInstance(**c) for c in data["compute"]]
    if any("start" not in c for c in data["compute"]):
        _pack(compute)
    return GpuInstance(**{**data, "compute": compute})


def _pack(compute: list[ComputeInstance]) -> None:
    """Side by side, wider ones first: a file of before compute instances had a place."""
    start = 0
    for instance in sorted(compute, key=lambda c: -COMPUTE_WIDTHS.get(c.profile_id, 1)):
        instance.start = start
        start += COMPUTE_WIDTHS.get(instance.profile_id, 1)
