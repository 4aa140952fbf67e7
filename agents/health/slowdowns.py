"""Pure: what slows a GPU down against its will. It warns; a slow GPU is not a broken one.

The bits are `nvmlClocksEventReason*` of nvml.h. A power cap by software, an idle GPU and clocks
that somebody set are how boards are meant to work, and are no news.
"""

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80

SLOWDOWNS = {
    HW_THERMAL: "it is too hot, and runs at half its clocks or less: look at fans and air",
    POWER_BRAKE: "the power supply asks it to brake: look at the server's power",
    SW_THERMAL: "it is hot, and the driver lowers its clocks: look at fans and air",
    HW_SLOWDOWN: "the hardware slows it down, for heat or power: look at both",
}


def slowdown_warning(reasons: int | None) -> str:
    """The first that holds, the most telling first; empty where none does or none is told."""
    return next((says for bit, says in SLOWDOWNS.items() if (reasons or 0) & bit), "")
