"""The ids by which Linux tells one machine, and one boot of it, from another; and its clock."""

import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MACHINE_ID = Path("/etc/machine-id")


def boot_id() -> str:
    """A new one at each boot; empty where the kernel has none."""
    return _first_line(BOOT_ID)


def boot_seconds() -> float:
    """Seconds since boot, time asleep included; they never go back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def machine_id() -> str:
    """Empty on a machine without `/etc/machine-id`."""
    return _first_line(MACHINE_ID)


def _first_line(path: Path) -> str:
    return path.read_text("utf-8").strip() if path.exists() else ""
