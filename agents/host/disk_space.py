"""Free space on the disk that holds the agent's journal and logs."""

import shutil
from pathlib import Path

# Below either limit a node should take no job. The doctor's disk checks use the same limits.
MIN_FREE_MIB = 5 * 1024
MIN_FREE_PERCENT = 10
# Free space is reported in steps, so that a document does not change with every byte written.
STEP_MIB = 10 * 1024


def free_mib(folder: Path) -> int:
    """Free space in MiB, rounded down to whole steps."""
    return (shutil.disk_usage(folder).free >> 20) // STEP_MIB * STEP_MIB


def is_full(folder: Path) -> bool:
    """Whether free space is below the limits of the preflight's check `host.agent_disk`."""
    usage = shutil.disk_usage(folder)
    percent = 100 * usage.free // usage.total
    return usage.free >> 20 < MIN_FREE_MIB or percent < MIN_FREE_PERCENT
