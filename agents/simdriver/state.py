"""The simulated node as plain values: GPUs, their instances and processes. Stored as JSON.

GPU instance ids follow the heap rule of real drivers (boards.json, `simulation`); the driver's own
placement order is the one in public transcripts.
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
# Compute slices by compute-instance profile id; 7 belongs to a 1g with double memory.
COMPUTE_WIDTHS = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 7: 1}
# Fields of a node whose key in the state file has another name.
STORED_KEYS = {"uuid_count": "made", "event_count": "events_made"}


@dataclass
class ComputeInstance:
    id: int
    profile_id: int
    uuid: str
    # The first compute slice, counted within the GPU instance.
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
class SimulatedProcess:
    """A client of the GPU."""

    pid: int
    memory_mib: int
    # The ids of the MIG device that it uses; None for the whole GPU.
    gpu_instance: int | None = None
    compute_instance: int | None = None
    # False: a monitor that keeps a handle open, which NVML does not list among the processes.
    listed: bool = True
    # In Unix seconds; 0: long ago.
    began_at: float = 0.0
    # Whether it is a client of an MPS server.
    mps: bool = False


@dataclass
class SimulatedEvent:
    """An event of an event set."""

    number: int
    gpu: str
    # As in nvml.h; the data of an XID event is the XID.
    type: int
    data: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass
class InjectedFailure:
    """The next `left` calls of the symbol `call` return `code` and do nothing else."""

    call: str
    code: int
    left: int


@dataclass
class SimulatedGpu:
    index: int
    uuid: str
    board: str
    numa_node: int
    mig_current: int = 0
    mig_pending: int = 0
    lost: bool = False
    # A monitor or profiler has the whole GPU open, so MIG changes return IN_USE.
    held_by_client: bool = False
    # Process ids of such clients.
    holders: list[int] = field(default_factory=list)
    # Resets fail, as in many virtual machines.
    reset_refused: bool = False
    instances: list[GpuInstance] = field(default_factory=list)
    processes: list[SimulatedProcess] = field(default_factory=list)
    # NVLinks that are wired but down, by number.
    nvlinks_down: list[int] = field(default_factory=list)
    # Since the last reset.
    ecc_uncorrected: int = 0
    ecc_corrected: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    # As in nvml.h, and so is `compute_mode`.
    recovery_action: int = 0
    # A mask; 0 for a board without events.
    event_types: int = EVENT_TYPES
    persistence: bool = False
    compute_mode: int = 0
    # 0: the board's default.
    power_limit_mw: int = 0

    @property
    def kind(self) -> Board:
        return known_boards()[self.board]

    @property
    def is_open(self) -> bool:
        """Whether a client has the whole GPU open."""
        return self.held_by_client or bool(self.holders)

    @property
    def pci_bus_id(self) -> str:
        return f"00000000:{(0x18 + 0x10 * self.index) % 0x100:02X}:00.0"

    def instance(self, instance_id: int) -> GpuInstance | None:
        return next((i for i in self.instances if i.id == instance_id), None)


@dataclass
class SimulatedNode:
    seed: int
    gpus: list[SimulatedGpu] = field(default_factory=list)
    # UUIDs assigned so far; none of these is assigned twice.
    uuid_count: int = 0
    # A MIG device that is made again with the same ids gets the same UUID again.
    repeats_mig_uuids: bool = False
    is_root: bool = True
    create_seconds: float = 0.0
    destroy_seconds: float = 0.0
    mode_seconds: float = 0.0
    # A key of `layouts.LAYOUTS`.
    layout: str = FLAT.name
    fabric_cluster: str = ""
    fabric_clique: int = 0
    events: list[SimulatedEvent] = field(default_factory=list)
    event_count: int = 0
    # Seconds by symbol or kind of call.
    slow: dict[str, float] = field(default_factory=dict)
    fail_next: list[InjectedFailure] = field(default_factory=list)

    def new_uuid(self, prefix: str) -> str:
        self.uuid_count += 1
        return f"{prefix}-{self._uuid(str(self.uuid_count))}"

    def mig_uuid(self, gpu: SimulatedGpu, instance: GpuInstance, compute: int) -> str:
        """Which of the two ways real drivers take is not verified."""
        if not self.repeats_mig_uuids:
            return self.new_uuid("MIG")
        return f"MIG-{self._uuid(f'{gpu.uuid}/{instance.id}/{compute}')}"

    def _uuid(self, name: str) -> uuid.UUID:
        space = uuid.uuid5(uuid.NAMESPACE_OID, f"tessera-simdriver-{self.seed}")
        return uuid.uuid5(space, name)


def new_node(
    *, board: str, gpus: int, seed: int, latency: bool, layout: Layout = FLAT
) -> SimulatedNode:
    """A node of equal boards; in the flat layout on two NUMA nodes. Latencies have the magnitude of
    real hardware: tenths of a second to create an instance, seconds to change the mode.

    Raises ValueError if the layout requires another board or number of GPUs."""
    if layout.board not in (None, board) or layout.gpus not in (None, gpus):
        raise ValueError(f"{layout.name} is {layout.gpus} x {layout.board}, not {gpus} x {board}")
    node = SimulatedNode(seed=seed, layout=layout.name)
    if latency:
        node.create_seconds, node.destroy_seconds, node.mode_seconds = 0.25, 0.15, 0.6
    for index in range(gpus):
        numa = 0 if index < (gpus + 1) // 2 else 1
        numa = layout.place(index, numa).numa
        node.gpus.append(SimulatedGpu(index, node.new_uuid("GPU"), known_boards()[board].key, numa))
    return node


def node_to_json(node: SimulatedNode) -> dict[str, Any]:
    return {STORED_KEYS.get(name, name): value for name, value in asdict(node).items()}


def node_from_json(data: dict[str, Any]) -> SimulatedNode:
    """Raises ValueError, KeyError, TypeError or AttributeError if `data` is not a node's state."""
    if data.get("layout", FLAT.name) not in LAYOUTS:
        raise ValueError(f"{data['layout']} is not a layout of this version")
    gpus = [_gpu(gpu) for gpu in data["gpus"]]
    events = [SimulatedEvent(**event) for event in data.get("events", [])]
    fail_next = [InjectedFailure(**fail) for fail in data.get("fail_next", [])]
    names = {key: name for name, key in STORED_KEYS.items()}
    fields = {names.get(key, key): value for key, value in data.items()}
    return SimulatedNode(**{**fields, "gpus": gpus, "events": events, "fail_next": fail_next})


def _gpu(data: dict[str, Any]) -> SimulatedGpu:
    instances = [_instance(i) for i in data["instances"]]
    processes = [SimulatedProcess(**p) for p in data["processes"]]
    return SimulatedGpu(**{**data, "instances": instances, "processes": processes})


def _instance(data: dict[str, Any]) -> GpuInstance:
    compute = [ComputeInstance(**c) for c in data["compute"]]
    if any("start" not in c for c in data["compute"]):
        _pack(compute)
    return GpuInstance(**{**data, "compute": compute})


def _pack(compute: list[ComputeInstance]) -> None:
    """Side by side, wider ones first: older files have no start of compute instances."""
    start = 0
    for instance in sorted(compute, key=lambda c: -COMPUTE_WIDTHS.get(c.profile_id, 1)):
        instance.start = start
        start += COMPUTE_WIDTHS.get(instance.profile_id, 1)
