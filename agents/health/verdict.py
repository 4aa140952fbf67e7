"""Whether a GPU is healthy, from its recent events and NVML's readings. Pure.

A fault does not last forever. An event counts until the GPU was reset (`was_reset`), or until
`EVENT_LIFETIME_SECONDS` have passed while the driver reports that it needs no recovery.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import IntEnum

from agents.facts.gpu_health import EventKind, HealthReadings
from agents.health.xids import RECOVERY_CHANGED, XidVerdict, xid_by_number

# Our choice: long enough that a GPU that fails repeatedly is not allocated repeatedly.
EVENT_LIFETIME_SECONDS = 3_600.0


class Recovery(IntEnum):
    """The recovery action that the driver requests: `NVML_GPU_RECOVERY_ACTION_*` of nvml.h."""

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
    Recovery.SYSTEM_REBOOT: "a reboot of the entire system",
}


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """A driver event with the time of its arrival."""

    gpu_uuid: str
    kind: EventKind
    # In seconds of the clock that assesses it.
    at: float
    # 0 if the event is not an XID.
    xid: int = 0
    # None for the whole GPU.
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """Whether a GPU takes new work."""

    healthy: bool
    # One sentence; empty if healthy.
    reason: str = ""


def assess(events: Iterable[GpuEvent], readings: HealthReadings) -> HealthVerdict:
    """Readings take precedence over events; of the events the newest fault gives the reason."""
    if reason := _reading_fault(readings) or _event_fault(events):
        return HealthVerdict(healthy=False, reason=reason)
    return HealthVerdict(healthy=True)


def is_relevant(kind: EventKind, xid: int) -> bool:
    """Whether an event may change the health of a GPU or end work on it."""
    if kind is not EventKind.XID:
        return kind is EventKind.ECC_UNCORRECTED
    return xid == RECOVERY_CHANGED or xid_by_number(xid).verdict is not XidVerdict.IGNORE


def carry_forward(before: HealthReadings, now: HealthReadings) -> HealthReadings:
    """The current readings; a missing value keeps the last one. Row remapping cannot be read while
    MIG instances exist (nvml.h), and a lost GPU reports nothing. Clock reasons are never kept."""
    missing = [f.name for f in fields(now) if getattr(now, f.name) is None]
    kept = {name: getattr(before, name) for name in missing if name != "clock_reasons"}
    lost = now.is_lost or (before.is_lost and bool(now.driver_error))
    return replace(now, **kept | {"is_lost": lost})


def was_reset(before: HealthReadings, now: HealthReadings) -> bool:
    """Whether the GPU was reset in between: it is back on the bus, or a fault is gone that only a
    reset clears."""
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
    """Whether an event still counts. Without a recovery action from the driver an event never
    expires by time alone."""
    responds = not readings.is_lost and not readings.driver_error
    lapses = readings.recovery == Recovery.NONE and responds
    return not lapses or now - event.at < EVENT_LIFETIME_SECONDS


def _reading_fault(readings: HealthReadings) -> str:
    if readings.is_lost:
        return "the GPU has fallen off the bus: reset its bus, or reboot the node"
    if readings.driver_error:
        return f"the driver does not respond for the GPU: {readings.driver_error}"
    if readings.remap_failed:
        return "a bad memory row could not be remapped: replace the GPU"
    if readings.recovery:
        return f"the driver requests {_need(readings.recovery)}"
    if readings.remap_pending:
        return "a memory row is waiting to be remapped: drain the GPU and reset it"
    if count := readings.uncorrected_errors:
        return f"{count} memory errors could not be corrected since the last reset: reset the GPU"
    return ""


def _need(recovery: int) -> str:
    return NEEDS[Recovery(recovery)] if recovery in NEEDS else f"recovery action {recovery}"


def _event_fault(events: Iterable[GpuEvent]) -> str:
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
