"""Pure: from a GPU's recent events and what NVML reads of it, to healthy or not and why.

A fault is not for ever. An event counts until the GPU was reset (`was_reset`), or until
`QUIET_SECONDS` have passed on a driver that says that it needs no recovery.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import IntEnum

from agents.facts.gpu_health import EventKind, HealthReadings
from agents.health.xids import RECOVERY_CHANGED, XidVerdict, xid_by_number

# Our choice: long enough that a GPU that fails again and again is not given again and again.
EVENT_LIFETIME_SECONDS = 3_600.0


class Recovery(IntEnum):
    """What the driver says that it needs: `NVML_GPU_RECOVERY_ACTION_*` of nvml.h."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


NEEDS = {
    Recovery.GPU_RESET: "a reset of the GPU",
    Recovery.NODE_REBOOT: "a reboot of the node",
    Recovery.DRAIN_P2P: "an end of all peer-to-peer work",
    Recovery.DRAIN_AND_RESET: "a drain and a reset of the GPU",
    Recovery.RECOVER_IMEX_DOMAIN: "a recovery of the IMEX domain",
    Recovery.BUS_RESET: "a reset of the GPU's bus",
    Recovery.SYSTEM_REBOOT: "a reboot of the whole system",
}


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """`at` in seconds of the clock of the one who judges. Instance ids are None for the whole GPU;
    `xid` is 0 where the event is none."""

    gpu_uuid: str
    kind: EventKind
    at: float
    xid: int = 0
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """`reason` is one sentence, empty where healthy."""

    healthy: bool
    reason: str = ""


def assess(events: Iterable[GpuEvent], readings: HealthReadings) -> HealthVerdict:
    """What is read comes before what was heard; of the events the newest fault gives the reason."""
    if reason := _read(readings) or _heard(events):
        return HealthVerdict(healthy=False, reason=reason)
    return HealthVerdict(healthy=True)


def is_relevant(kind: EventKind, xid: int) -> bool:
    """Whether an event may change what is thought of a GPU or of the work on it."""
    if kind is not EventKind.XID:
        return kind is EventKind.ECC_UNCORRECTED
    return xid == RECOVERY_CHANGED or xid_by_number(xid).verdict is not XidVerdict.IGNORE


def carry_forward(before: HealthReadings, now: HealthReadings) -> HealthReadings:
    """What is silent now keeps its last answer: row remapping does not answer while MIG instances
    stand (nvml.h), and a lost GPU answers nothing. What slows a GPU is of the moment."""
    silent = [f.name for f in fields(now) if getattr(now, f.name) is None]
    kept = {name: getattr(before, name) for name in silent if name != "clock_reasons"}
    lost = now.is_lost or (before.is_lost and bool(now.driver_error))
    return replace(now, **kept | {"is_lost": lost})


def was_reset(before: HealthReadings, now: HealthReadings) -> bool:
    """Whether the GPU began anew in between: it is back on the bus, or something is gone that only
    a reset takes away."""
    if now.is_lost or now.driver_error:
        return False
    fewer = (now.uncorrected_errors or 0) < (before.uncorrected_errors or 0)
    return any(
        (
            before.is_lost,
            bool(before.remap_pending) and now.remap_pending is False,
            now.uncorrected_errors is not None and fewer,
            bool(before.recovery) and now.recovery == Recovery.NONE,
        )
    )


def is_current(event: GpuEvent, readings: HealthReadings, now: float) -> bool:
    """Whether an event is recent, without a reset since. A driver that cannot tell what it needs
    never lets an event lapse by time alone."""
    answers = not readings.is_lost and not readings.driver_error
    lapses = readings.recovery == Recovery.NONE and answers
    return not lapses or now - event.at < EVENT_LIFETIME_SECONDS


def _read(reads: HealthReadings) -> str:
    if reads.is_lost:
        return "the GPU has fallen off the bus: reset its bus, or reboot the node"
    if reads.driver_error:
        return f"the driver does not answer for the GPU: {reads.driver_error}"
    if reads.remap_failed:
        return "a bad memory row could not be replaced: have the GPU exchanged"
    if reads.recovery:
        return f"the driver asks for {_need(reads.recovery)}"
    if reads.remap_pending:
        return "a memory row is to be replaced: drain the GPU and reset it"
    if count := reads.uncorrected_errors:
        return f"{count} memory errors could not be corrected since the last reset: reset the GPU"
    return ""


def _need(recovery: int) -> str:
    return NEEDS[Recovery(recovery)] if recovery in NEEDS else f"recovery action {recovery}"


def _heard(events: Iterable[GpuEvent]) -> str:
    reasons = [reason for event in events if (reason := _fault(event))]
    return reasons[-1] if reasons else ""


def _fault(event: GpuEvent) -> str:
    if event.kind is EventKind.ECC_UNCORRECTED:
        return "a memory error could not be corrected: reset the GPU"
    if event.kind is EventKind.ECC_CORRECTED:
        return ""
    xid = xid_by_number(event.xid)
    if not xid.faults_gpu:
        return ""
    return f"{xid.sentence} (XID {xid.number}, {xid.verdict}){_at_instance(event)}"


def _at_instance(event: GpuEvent) -> str:
    return "" if event.gpu_instance is None else f", at GPU instance {event.gpu_instance}"
