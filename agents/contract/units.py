"""Integer amounts of GPU. One GPU is 56,000 units; no float is ever an amount of a resource.

56,000 divides by 7 (compute slices), 8 (memory slices) and 1,000 (thousandths), so every slice of
every board costs a whole number.
"""

from fractions import Fraction

UNITS_PER_GPU = 56_000
UNITS_PER_PERCENT = UNITS_PER_GPU // 100
SECONDS_PER_HOUR = 3_600


def share_units(part: int, total: int) -> int:
    """Units of `part` out of `whole` equal parts of one GPU, rounded up.

    Rounding up keeps the sum of all parts at or above their true size. It only matters on boards
    whose slice counts do not divide 56,000; none is known.
    """
    if not 0 <= part <= total or total < 1:
        raise ValueError(f"{part} of {total} is not a share of one GPU")
    return -(-UNITS_PER_GPU * part // total)


def slice_units(compute: int, compute_total: int, memory: int, memory_total: int) -> int:
    """Units of a MIG slice: its dominant share, max(compute, memory)."""
    return max(share_units(compute, compute_total), share_units(memory, memory_total))


def gpu_hours(unit_seconds: int) -> Fraction:
    """Unit-seconds as GPU-hours, exact. Round only where it is shown."""
    return Fraction(unit_seconds, UNITS_PER_GPU * SECONDS_PER_HOUR)


def as_gpus(units: int, *, round_up: bool = True) -> str:
    """Units as GPUs, such as "2.43" or "1,230.5", with at most two decimals. Round used amounts up
    and free amounts down."""
    hundredths = -(-units * 100 // UNITS_PER_GPU) if round_up else units * 100 // UNITS_PER_GPU
    whole, part = divmod(hundredths, 100)
    return f"{whole:,}.{part:02}" if part else f"{whole:,}"
