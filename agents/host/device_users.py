"""Who keeps a GPU or a MIG instance open, by the files that processes hold. The one place that
knows these files; what NVML lists as a process is asked of NVML."""

import re
from collections.abc import Callable, Container
from dataclasses import dataclass

from agents.host.files import HostFiles

# Minor numbers of the capabilities of every GPU instance and compute instance, one a line, such as
# `gpu0/gi1/access 12`. Source: NVIDIA MIG User Guide, device nodes and capabilities.
CAPABILITIES = "/proc/driver/nvidia-caps/mig-minors"
# Programs that keep GPU handles open, by the kernel's 15 characters of their names.
MONITORS = ("nv-hostengine", "dcgm-exporter", "dcgmi")
GPU_FILE = re.compile(r"/dev/nvidia(\d+|-caps/.*)")


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """A process; `program` by the kernel's 15 characters of its name, "" where it is not told."""

    pid: int
    program: str = ""

    def __str__(self) -> str:
        return f"{self.program or 'a program'} (pid {self.pid})"


@dataclass(frozen=True, slots=True)
class UserScan:
    """`hidden`: processes whose files may not be read, so that nobody can tell."""

    users: tuple[DeviceUser, ...] = ()
    hidden: tuple[DeviceUser, ...] = ()


def program_name(files: HostFiles, pid: int) -> str:
    return (files.text(f"/proc/{pid}/comm") or "").strip()


def scan_device_users(
    files: HostFiles,
    is_device_file: Callable[[str], bool],
    *,
    is_candidate: Callable[[DeviceUser], bool] = lambda _: True,
) -> UserScan | None:
    """The processes that hold a file for which `is_held` is true; None where /proc is silent."""
    processes = files.names("/proc")
    if processes is None:
        return None
    holders, hidden = [], []
    for pid in sorted(map(int, filter(str.isdigit, processes))):
        holder = DeviceUser(pid, program_name(files, pid))
        if not is_candidate(holder):
            continue
        opened = files.names(f"/proc/{pid}/fd")
        if opened is None:
            hidden.append(holder)
        elif any(is_device_file(files.link(f"/proc/{pid}/fd/{file}") or "") for file in opened):
            holders.append(holder)
    return UserScan(tuple(holders), tuple(hidden))


def is_gpu_file(path: str) -> bool:
    """Any GPU's device, or any capability."""
    return GPU_FILE.fullmatch(path) is not None


def device_files(
    files: HostFiles, gpu_minor: int, instance_id: int | None = None
) -> Container[str]:
    """The device files of a GPU with all its instances, or of one GPU instance alone."""
    below = f"gpu{gpu_minor}/" + ("" if instance_id is None else f"gi{instance_id}/")
    lines = (files.text(CAPABILITIES) or "").splitlines()
    words = (line.split() for line in lines if line.startswith(below))
    found = {f"/dev/nvidia-caps/nvidia-cap{minor}" for _, minor in words}
    return found if instance_id is not None else found | {f"/dev/nvidia{gpu_minor}"}
