"""Whether a job is idle, from the samples of its devices, and of a notebook also from its kernels.
Pure.

A minute counts only if each device of the job was measured in it. Where one was not, as an MPS
share never is, nothing is concluded: the job is not idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)
# The samples of a minute arrive while the next one runs.
NEWEST_AGE = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class MeasuredMinute:
    """One minute of a job."""

    minute: datetime
    peak_percent: int | None
    """The highest activity of any of its devices; None if none was measured."""
    measured_count: int
    """How many devices were measured."""


@dataclass(frozen=True, slots=True)
class IdleTime:
    since: datetime
    peak_percent: int


def idle_time(
    minutes: Sequence[MeasuredMinute], *, devices: int, threshold_percent: int, now: datetime
) -> IdleTime | None:
    """Since when every device has stayed below the threshold, without a minute that was not
    measured; None if that cannot be said of the last minutes. `minutes`: oldest first."""
    idle: IdleTime | None = None
    before = now
    for entry in reversed(minutes):
        most = MINUTE if idle else NEWEST_AGE
        is_next = before - entry.minute <= most
        is_measured = entry.measured_count >= devices > 0 and entry.peak_percent is not None
        if not is_next or not is_measured or (entry.peak_percent or 0) >= threshold_percent:
            break
        peak = max(idle.peak_percent if idle else 0, entry.peak_percent or 0)
        idle = IdleTime(entry.minute, peak)
        before = entry.minute
    return idle


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Of the kernels and terminals of a notebook."""

    active_at: datetime
    reported_at: datetime


def idle_with_kernels(
    idle: IdleTime | None, kernels: KernelTimes | None, now: datetime
) -> IdleTime | None:
    """Since when devices and kernels have both been idle. While a kernel works, on the CPU alone as
    well, its notebook is not; nor one whose node has not lately said so."""
    if idle is None or kernels is None or now - kernels.reported_at > NEWEST_AGE:
        return None
    return replace(idle, since=max(idle.since, kernels.active_at))
