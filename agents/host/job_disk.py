"""How much of the disk that they write to jobs may use. Needs neither Docker nor a driver."""

import argparse
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from agents.contract.replica_limits import MAX_DISK_MIB

# The capacity is reported in these steps. It is a size, not free space, so it rarely changes.
STEP_MIB = 1024

_MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
_AMOUNT = re.compile(r"([0-9]{1,9})(MiB|GiB|TiB)")
_PERCENT = re.compile(r"([0-9]{1,2})%")


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """The part of a disk that is kept for images, logs and the system: the larger of the two."""

    percent: int = 0
    mib: int = 0

    def __str__(self) -> str:
        """As `parse_reserve` reads it, for a reserve that has one of the two."""
        return f"{self.mib}MiB" if self.mib else f"{self.percent}%"

    def reserved_mib(self, total_mib: int) -> int:
        """MiB to reserve on a disk of `total_mib`; all of it if the reserve is larger."""
        return min(total_mib, max(self.mib, -(-total_mib * self.percent // 100)))


# Twice what the preflight requires to be free (`host/disk_space.py`): one half for images and logs,
# and below the other half the preflight blocks the node.
DEFAULT_RESERVE = DiskReserve(percent=20, mib=10 * 1024)


def parse_reserve(text: str) -> DiskReserve:
    """Parse "20%" or "200GiB". Raises argparse.ArgumentTypeError."""
    if match := _PERCENT.fullmatch(text):
        return DiskReserve(percent=int(match[1]))
    if match := _AMOUNT.fullmatch(text):
        return DiskReserve(mib=int(match[1]) * _MIB[match[2]])
    raise argparse.ArgumentTypeError('give a percentage or an amount, such as "20%" or "200GiB"')


@dataclass(frozen=True, slots=True)
class JobDisk:
    """The file system that jobs write to."""

    # A folder on it; None if it is unknown.
    folder: Path | None = None
    reserve: DiskReserve = DEFAULT_RESERVE

    def capacity_mib(self) -> int | None:
        """What jobs may use of it together, in MiB: its size less the reserve, in whole steps.

        None if it cannot be measured; then the node does not report it."""
        if self.folder is None:
            return None
        try:
            total = shutil.disk_usage(self.folder).total >> 20
        except OSError:
            return None
        for_jobs = min(MAX_DISK_MIB, total - self.reserve.reserved_mib(total))
        return for_jobs // STEP_MIB * STEP_MIB
