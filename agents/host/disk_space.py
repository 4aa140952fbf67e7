"""Room on the disk where the agent keeps its journal and logs."""

import shutil
from pathlib import Path

from agents.doctor.host import LEAST_FREE_MIB, LEAST_FREE_PERCENT

# Disk is told in steps, so that a document does not change with every byte that is written.
STEP_MIB = 10 * 1024


def free_mib(folder: Path) -> int:
    """Free space in MiB, in whole steps."""
    return (shutil.disk_usage(folder).free >> 20) // STEP_MIB * STEP_MIB


def is_full(folder: Path) -> bool:
    """By the limits of the preflight's own check, `host.agent_disk`."""
    usage = shutil.disk_usage(folder)
    percent = 100 * usage.free // usage.total
    return usage.free >> 20 < LEAST_FREE_MIB or percent < LEAST_FREE_PERCENT
