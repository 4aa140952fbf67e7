"""Which processes have a GPU or a MIG instance open, found by their open device files.

The only module that knows these files. NVML's own list of processes is in `nvml/processes.py`.
"""

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
    """A process that may have a device open."""

    pid: int
    # The first 15 characters of its name, as the kernel keeps it; "" if unknown.
    program: str = ""

    def __str__(self) -> str:
        return f"{self.program or 'a program'} (pid {self.pid})"


@dataclass(frozen=True, slots=True)
class UserScan:
    """The result of a scan of /proc."""

    users: tuple[DeviceUser, ...] = ()
    # Processes whose open files may not be read.
    hidden: tuple[DeviceUser, ...] = ()


def program_name(files: HostFiles, pid: int) -> str:
    return (files.text(f"/proc/{pid}/comm") or "").strip()


def scan_device_users(
    files: HostFiles,
    is_device_file: Callable[[str], bool],
    *,
    is_candidate: Callable[[DeviceUser], bool] = lambda _: True,
) -> UserScan | None:
    """The candidates with an open file for which `is_device_file` is true.

    None if /proc cannot be read."""
    processes = files.names("/proc")
    if processes is None:
        return None
    users, hidden = [], []
    for pid in sorted(map(int, filter(str.isdigit, processes))):
        user = DeviceUser(pid, program_name(files, pid))
        if not is_candidate(user):
            continue
        opened = files.names(f"/proc/{pid}/fd")
        if opened is None:
            hidden.append(user)
        elif any(is_device_file(files.link(f"/proc/{pid}/fd/{file}") or "") for file in opened):
            users.append(user)
    return UserScan(tuple(users), tuple(hidden))


def is_gpu_file(path: str) -> bool:
    """Whether it is the device file of any GPU, or of any MIG capability."""
    return GPU_FILE.fullmatch(path) is not None


def device_files(
    files: HostFiles, gpu_minor: int, instance_id: int | None = None
) -> Container[str]:
    """The device files of a GPU and all its instances, or of one GPU instance alone."""
    below = f"gpu{gpu_minor}/" + ("" if instance_id is None else f"gi{instance_id}/")
    lines = (files.text(CAPABILITIES) or "").splitlines()
    words = (line.split() for line in lines if line.startswith(below))
    found = {f"/dev/nvidia-caps/nvidia-cap{minor}" for _, minor in words}
    return found if instance_id is not None else found | {f"/dev/nvidia{gpu_minor}"}
