"""Faults of a simulated node, as changes of its state. XIDs and lost GPUs are in `health`.

An impossible fault raises ValueError with a sentence and changes nothing.
"""

from agents.simdriver.codes import Code
from agents.simdriver.health import MAX_EVENTS, clear_health
from agents.simdriver.state import (
    EVENT_TYPES,
    InjectedFailure,
    SimulatedEvent,
    SimulatedGpu,
    SimulatedNode,
    SimulatedProcess,
)

SINGLE_BIT_EVENT, DOUBLE_BIT_EVENT = 0x1, 0x2
HOLDER_MIB = 512
# Kinds of calls that can be slowed down together, and the parts of their symbols.
KINDS: dict[str, tuple[str, ...]] = {
    "read": ("Get",),
    "create": ("CreateGpuInstance", "CreateComputeInstance"),
    "destroy": ("InstanceDestroy",),
    "mode": ("SetMigMode",),
    "any": ("",),
}


def call_kinds(symbol: str) -> tuple[str, ...]:
    """The kinds of calls that the symbol belongs to."""
    return tuple(k for k, parts in KINDS.items() if any(part in symbol for part in parts))


def attach_client(
    gpu: SimulatedGpu,
    pid: int,
    instance: int | None = None,
    compute: int | None = None,
    *,
    listed: bool = True,
) -> None:
    """A client that has the whole GPU or a MIG instance open, so changes return IN_USE.

    On a GPU with MIG off it is a process of the GPU, if `listed`; a monitor that has the whole of
    a GPU in MIG mode open is never among the processes."""
    if pid in gpu.holders or any(p.pid == pid for p in gpu.processes):
        raise ValueError(f"pid {pid} has GPU {gpu.index} open already")
    if instance is None:
        if compute is not None:
            raise ValueError("a compute instance is named within its GPU instance: --instance")
        if listed and not gpu.mig_current:
            gpu.processes.append(SimulatedProcess(pid, HOLDER_MIB))
        else:
            gpu.holders.append(pid)
        return
    found = gpu.instance(instance)
    known = sorted(c.id for c in found.compute) if found else []
    if not known:
        raise ValueError(f"GPU {gpu.index} has no instance {instance} that a process could be on")
    compute = known[0] if compute is None else compute
    if compute not in known:
        raise ValueError(f"instance {instance} has no compute instance {compute}, it has {known}")
    gpu.processes.append(
        SimulatedProcess(pid, HOLDER_MIB if listed else 0, instance, compute, listed)
    )


def detach_client(gpu: SimulatedGpu, pid: int) -> None:
    """The client closes the device."""
    if pid not in gpu.holders and all(p.pid != pid for p in gpu.processes):
        raise ValueError(f"pid {pid} does not have GPU {gpu.index} open")
    gpu.holders = [holder for holder in gpu.holders if holder != pid]
    gpu.processes = [process for process in gpu.processes if process.pid != pid]


def reset_gpu(node: SimulatedNode, gpu: SimulatedGpu) -> None:
    """As `nvidia-smi --gpu-reset`: removes instances, applies a pending mode, clears health faults.
    That Hopper keeps its mode over a reset is not verified."""
    if gpu.reset_refused:
        raise ValueError(f"GPU {gpu.index} refuses to be reset: only a reboot helps")
    clients = sorted({*gpu.holders, *(p.pid for p in gpu.processes)})
    if clients or gpu.held_by_client:
        named = f", by {', '.join(map(str, clients))}" if clients else ""
        raise ValueError(f"GPU {gpu.index} is in use{named}: close it before a reset")
    gpu.instances = []
    gpu.mig_current = gpu.mig_pending
    clear_faults(node, gpu)


def reboot_node(node: SimulatedNode) -> None:
    """Every process and MIG instance is gone. Ampere keeps its mode (InfoROM), and a pending one is
    current then; Hopper and newer come back with MIG off. A GPU that refuses resets goes on so."""
    for gpu in node.gpus:
        gpu.instances, gpu.processes, gpu.holders = [], [], []
        gpu.held_by_client = gpu.persistence = False
        gpu.compute_mode = gpu.power_limit_mw = 0
        gpu.mig_current = gpu.mig_pending if gpu.kind.mode_persists_reboot else 0
        gpu.mig_pending = gpu.mig_current
        clear_faults(node, gpu)


def clear_faults(node: SimulatedNode, gpu: SimulatedGpu) -> None:
    """Clears lost, ECC and remapping; instances, mode and clients stay."""
    clear_health(node, gpu)
    gpu.ecc_corrected = 0


def inject_ecc(node: SimulatedNode, gpu: SimulatedGpu, count: int, *, corrected: bool) -> None:
    """Increments the counters and adds one event."""
    kind = SINGLE_BIT_EVENT if corrected else DOUBLE_BIT_EVENT
    if not gpu.event_types & EVENT_TYPES & kind:
        raise ValueError(f"GPU {gpu.index} has no ECC events")
    if corrected:
        gpu.ecc_corrected += count
    else:
        gpu.ecc_uncorrected += count
    node.event_count += 1
    event = SimulatedEvent(node.event_count, gpu.uuid, kind, 0)
    node.events = [*node.events, event][-MAX_EVENTS:]


def inject_remap(gpu: SimulatedGpu, *, failed: bool) -> None:
    """A row to be remapped at the next reset, or one that could not be. Turing retires pages."""
    if gpu.kind.architecture == "turing":
        raise ValueError(f"GPU {gpu.index} ({gpu.board}) does not remap rows")
    gpu.remap_pending |= not failed
    gpu.remap_failed |= failed


def set_call_seconds(
    node: SimulatedNode, call: str, seconds: float, symbols: frozenset[str]
) -> None:
    """Delays each such call; 0 ends it."""
    if call not in KINDS and call not in symbols:
        raise ValueError(f"{call} is neither a call of the driver nor one of {', '.join(KINDS)}")
    node.slow = {name: old for name, old in node.slow.items() if name != call}
    if seconds > 0:
        node.slow[call] = seconds


def fail_next(
    node: SimulatedNode, code: Code, call: str, times: int, symbols: frozenset[str]
) -> None:
    """The next calls return `code` and do nothing; 0 times cancels it."""
    if call not in symbols:
        raise ValueError(f"{call} is not a call of the simulated driver")
    if code is Code.SUCCESS:
        raise ValueError("SUCCESS is not a failure")
    node.fail_next = [fail for fail in node.fail_next if fail.call != call]
    if times:
        node.fail_next.append(InjectedFailure(call, int(code), times))


def call_seconds(node: SimulatedNode, names: tuple[str, ...]) -> float:
    """How long a call takes that has these names: its symbol and its kinds; the longest counts."""
    return max((node.slow.get(name, 0.0) for name in names), default=0.0)


def take_failure(node: SimulatedNode, call: str) -> int:
    """Consumes one injected failure. Returns its code, or 0 if there is none."""
    for fail in node.fail_next:
        if fail.call == call:
            fail.left -= 1
            node.fail_next = [f for f in node.fail_next if f.left > 0]
            return fail.code
    return 0
