"""Unit-seconds as GPU-hours for people. Usage is rounded only here, and always up."""

from agents.contract.units import SECONDS_PER_HOUR, UNITS_PER_GPU

UNIT_SECONDS_PER_GPU_HOUR = UNITS_PER_GPU * SECONDS_PER_HOUR


def format_gpu_hours(unit_seconds: int) -> str:
    """GPU-hours with two decimals, "61,204.07"."""
    hundredths = -(-unit_seconds * 100 // UNIT_SECONDS_PER_GPU_HOUR)
    hours, fraction = divmod(hundredths, 100)
    return f"{hours:,}.{fraction:02}"


def short_gpu_hours(unit_seconds: int) -> str:
    """The same, without decimals where it is whole: a limit, a grid line."""
    return format_gpu_hours(unit_seconds).removesuffix(".00")


def percent(part: int, total: int) -> int:
    """`part` of `total`, to the nearest whole number; 0 if the total is 0."""
    return (part * 200 + total) // (total * 2) if total else 0
