"""Unit-seconds as people read them. Rounded only here, and up, as everything used is."""

from agents.contract.units import SECONDS_PER_HOUR, UNITS_PER_GPU

UNIT_SECONDS_PER_GPU_HOUR = UNITS_PER_GPU * SECONDS_PER_HOUR


def format_gpu_hours(unit_seconds: int) -> str:
    """GPU-hours with two decimals, "61,204.07"."""
    hundredths = -(-unit_seconds * 100 // UNIT_SECONDS_PER_GPU_HOUR)
    whole, part = divmod(hundredths, 100)
    return f"{whole:,}.{part:02}"


def percent(part: int, total: int) -> int:
    """The nearest whole number; of nothing it is 0."""
    return (part * 200 + total) // (total * 2) if total else 0
