"""CPU and memory of this machine, and the part of them that jobs are not offered.

The engine, the agent, MPS daemons and the page cache need some of both: on a node that gives all of
its memory away, the kernel ends one of them instead of the job that grew."""

import os
import re
from dataclasses import dataclass

AUTO = "auto"
# Our choice. Kubernetes providers keep 0.3 to 6 % of the CPUs and 2 to 25 % of the memory, less of
# large machines.
AUTO_CPU_PERCENT, AUTO_CPU_MILLI = 2, 100
AUTO_MEMORY_PERCENT, AUTO_MEMORY_MIB = 3, 1024

_PERCENT = re.compile(r"([0-9]{1,2})%")
_CPUS = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,3}))?")
_MEMORY = re.compile(r"([0-9]{1,9})(MiB|GiB)")
_MIB = {"MiB": 1, "GiB": 1 << 10}


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """CPU in thousandths of one, memory in MiB."""

    cpu_milli: int
    memory_mib: int

    def without(self, reserve: "HostCapacity") -> "HostCapacity":
        return HostCapacity(
            self.cpu_milli - reserve.cpu_milli, self.memory_mib - reserve.memory_mib
        )


def host_capacity() -> HostCapacity:
    """The CPUs that this process may use, and the physical memory."""
    pages = os.sysconf("SC_PHYS_PAGES")
    return HostCapacity(
        cpu_milli=len(os.sched_getaffinity(0)) * 1_000,
        memory_mib=pages * os.sysconf("SC_PAGE_SIZE") >> 20,
    )


def reserved_cpu_milli(text: str, total_milli: int) -> int:
    """`text`: "auto", a percentage, or CPUs such as "2" or "0.5". At most all of them.

    Raises ValueError."""
    if text == AUTO:
        return _at_most(total_milli, AUTO_CPU_PERCENT, AUTO_CPU_MILLI)
    if match := _PERCENT.fullmatch(text):
        return _at_most(total_milli, int(match[1]), 0)
    if match := _CPUS.fullmatch(text):
        return min(total_milli, int(match[1]) * 1_000 + int((match[2] or "").ljust(3, "0")))
    raise ValueError('must be "auto", a percentage such as "2%", or CPUs such as "4" or "0.5"')


def reserved_memory_mib(text: str, total_mib: int) -> int:
    """`text`: "auto", a percentage, or an amount such as "16GiB". At most all of it.

    Raises ValueError."""
    if text == AUTO:
        return _at_most(total_mib, AUTO_MEMORY_PERCENT, AUTO_MEMORY_MIB)
    if match := _PERCENT.fullmatch(text):
        return _at_most(total_mib, int(match[1]), 0)
    if match := _MEMORY.fullmatch(text):
        return min(total_mib, int(match[1]) * _MIB[match[2]])
    raise ValueError('must be "auto", a percentage such as "3%", or an amount such as "16GiB"')


def _at_most(total: int, percent: int, least: int) -> int:
    return min(total, max(least, -(-total * percent // 100)))
