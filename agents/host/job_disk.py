"""What jobs may have of the disk that they write to. Nothing here needs Docker or a driver."""

import argparse
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from agents.contract.documents import MAX_DISK_MIB

# A size, not what is free: it rarely changes.
STEP_MIB = 1024
# Docker's own default; an engine that answers names its folder itself.
ENGINE_FOLDER = Path("/var/lib/docker")

_MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
_AMOUNT = re.compile(r"([0-9]{1,9})(MiB|GiB|TiB)")
_PERCENT = re.compile(r"([0-9]{1,2})%")


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """What of a disk is kept from jobs, for images, logs and the system: a part of it, or MiB."""

    percent: int = 0
    mib: int = 0

    def reserved_mib(self, total_mib: int) -> int:
        """MiB of a disk of this size; all of it where the reserve is larger."""
        return min(total_mib, max(self.mib, -(-total_mib * self.percent // 100)))


# Half of it for images and logs; below the other half the preflight blocks the node: twice what
# `agents.doctor.host` asks to be free.
DEFAULT_RESERVE = DiskReserve(percent=20, mib=10 * 1024)


def parse_reserve(text: str) -> DiskReserve:
    """ "20%" or "200GiB", as an argument. Raises argparse.ArgumentTypeError."""
    if match := _PERCENT.fullmatch(text):
        return DiskReserve(percent=int(match[1]))
    if match := _AMOUNT.fullmatch(text):
        return DiskReserve(mib=int(match[1]) * _MIB[match[2]])
    raise argparse.ArgumentTypeError('write a part or an amount, such as "20%" or "200GiB"')


@dataclass(frozen=True, slots=True)
class JobDisk:
    """The file system that jobs write to: the one of `folder`; None where nobody knows it."""

    folder: Path | None = None
    reserve: DiskReserve = DEFAULT_RESERVE

    def capacity_mib(self) -> int | None:
        """What jobs may have of it together, in MiB: its size less the reserve, in whole steps.
        None where it cannot be measured, and then the node does not say."""
        if self.folder is None:
            return None
        try:
            total = shutil.disk_usage(self.folder).total >> 20
        except OSError:
            return None
        for_jobs = min(MAX_DISK_MIB, total - self.reserve.reserved_mib(total))
        return for_jobs // STEP_MIB * STEP_MIB
