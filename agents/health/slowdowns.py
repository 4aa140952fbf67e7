"""Warnings about GPUs that run slower than they should. A slow GPU is not a broken one. Pure.

The bits are `nvmlClocksEventReason*` of nvml.h. A software power cap, an idle GPU and clocks set by
an administrator are normal and cause no warning.
"""

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80

SLOWDOWNS = {
    HW_THERMAL: "it is too hot and runs at half its clocks or less: check fans and airflow",
    POWER_BRAKE: "the power supply requests a power brake: check the server's power",
    SW_THERMAL: "it is hot and the driver lowers its clocks: check fans and airflow",
    HW_SLOWDOWN: "the hardware slows it down because of heat or power: check both",
}


def slowdown_warning(reasons: int | None) -> str:
    """The most specific warning; empty if there is none or the reasons are not known."""
    return next((text for bit, text in SLOWDOWNS.items() if (reasons or 0) & bit), "")
