"""A machine on paper: a folder stands for its root, recorded words for its programs.

The words of runc are those of Debian 12's package, its change log is shortened to the lines that
name a hole. Those of NVIDIA's programs are as their documentation and public issues show them.
"""

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agents.admission.policy import NodePolicy
from agents.contract.documents import RuntimeKind
from agents.doctor.checks import DoctorVerdict
from agents.doctor.examination import CHECKS, examine
from agents.doctor.machine import CommandOutput, DiskUsage, DriverFacts, ProbeCommand
from agents.facts.gpus import DriverVersions, GpuFacts
from agents.host.files import FileTree
from agents.host.system_reserve import HostCapacity
from agents.route.reading import AddressReading
from agents.runtime.docker_engine import EngineApi

GPU = "GPU-5f6cd0c1-9a51-4b1c-8d9e-1c0a6d2f0b11"
SLICE = "MIG-9a1c4b6e-77a1-5c52-b0de-0b9f6f3a1d01"

DEBIAN_RUNC = """runc version 1.1.5+ds1
commit: 1.1.5+ds1-1+deb12u1
spec: 1.0.2-dev
go: go1.19.8
libseccomp: 2.5.4
"""
DEBIAN_CHANGELOG = """runc (1.1.5+ds1-1+deb12u1) bookworm-security; urgency=high

  * CVE-2024-21626: several container breakouts due to internally leaked fds

"""
UPSTREAM_RUNC = """runc version {version}
commit: v{version}-0-g6c52b3fc
spec: 1.2.0
go: go1.23.9
libseccomp: 2.5.5
"""
TOOLKIT = """NVIDIA Container Toolkit CLI version {version}
commit: f202b80a9b9d0db00d9b1d73c0128c8962c55f4d
"""
OLD_TOOLKIT = """cli-version: 1.13.5
lib-version: 1.13.5
build date: 2023-07-18T11:37+0000
"""
CDI = """time="2026-11-02T09:14:11Z" level=info msg="Found {count} CDI devices"
{devices}
"""
OPEN_MODULE = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
CLOSED_MODULE = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Release Build
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
MODULES = """nvidia_uvm 1732608 0 - Live 0x0000000000000000 (OE)
nvidia 11223040 2 nvidia_uvm, Live 0x0000000000000000 (OE)
"""
FABRIC_MANAGER = "Fabric Manager version is : {version}\n"
TIME = """Timezone=Etc/UTC
LocalRTC=no
CanNTP=yes
NTP=yes
NTPSynchronized={synchronised}
"""
CONFIG = """disable-require = false
accept-nvidia-visible-devices-envvar-when-unprivileged = {accept}

[nvidia-container-cli]
load-kmods = true

[nvidia-container-runtime]
mode = "auto"
"""
ENGINE = {
    "ServerVersion": "28.5.1",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "LiveRestoreEnabled": True,
    "DefaultRuntime": "runc",
    "DockerRootDir": "/var/lib/docker",
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "Runtimes": {"io.containerd.runc.v2": {}, "nvidia": {}, "runc": {}},
}


class PaperMachine(FileTree):
    """Like the real one where it reads files; everything else is what the test wrote down."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.home, self.user = "/var/lib/tessera", 0
        self.runtime = RuntimeKind.DOCKER
        self.simulated = False
        self.policy = NodePolicy()
        self.outputs = {}
        self.engine = dict(ENGINE)
        self.engine_api = EngineApi("28.5.1", "1.24", "1.51", "1.44")
        self.engine_failure = ""
        self.driver = a_driver()
        self.disks = {}
        self.capacity = HostCapacity(cpu_milli=192_000, memory_mib=2_000_000)
        self.accesses = {}
        self.folder_problems = ()
        self.overlay = None
        self.portal = (a_portal(),)

    def output(self, command):
        return self.outputs.get(command)

    def disk(self, path):
        return self.disks.get(path, DiskUsage(total_mib=1_000_000, free_mib=400_000))

    def access(self, path):
        return self.accesses.get(path)

    def says(self, command, text, code=0):
        self.outputs[command] = CommandOutput(code, text)

    def write(self, path, text):
        at = self.at(path)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())

    def points(self, path, target):
        at = self.at(path)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(target)


def cdi(*names):
    """What `nvidia-ctk cdi list` says of these devices."""
    devices = "\n".join(f"nvidia.com/gpu={name}" for name in names)
    return CDI.format(count=len(names), devices=devices)


def a_gpu(product_name="NVIDIA H200", uuid=GPU, mig=False):
    return GpuFacts(0, uuid, product_name, 143_771, "00000000:17:00.0", 0, mig, mig)


def a_driver(version="580.95.05", gpus=None, slices=()):
    versions = DriverVersions(version, f"13.{version}", "13.0")
    return DriverFacts(versions, (a_gpu(),) if gpus is None else tuple(gpus), tuple(slices))


def a_portal(address="https://gpu.example.org", clock_seconds=0.4, expires_at=None):
    """It answers, with a certificate of two months."""
    ends = expires_at or datetime.now(UTC) + timedelta(days=60)
    return AddressReading(address, expires_at=ends, clock_seconds=clock_seconds)


def a_machine(root, driver="580.95.05", toolkit="1.19.1", runc="1.3.6"):
    """A node with one H200 on which everything is well."""
    machine = PaperMachine(root)
    machine.driver = a_driver(driver)
    machine.write("/proc/driver/nvidia/version", OPEN_MODULE.format(version=driver))
    machine.write("/proc/modules", MODULES)
    for device, minor in (("nvidia0", 0), ("nvidiactl", 255)):
        machine.write(f"/dev/{device}", "")
        machine.points(f"/dev/char/195:{minor}", f"../{device}")
    machine.write("/etc/nvidia-container-runtime/config.toml", CONFIG.format(accept="true"))
    for program in ("nvidia-ctk", "nvidia-container-runtime-hook"):
        machine.write(f"/usr/bin/{program}", "")
    machine.says(
        ProbeCommand.CDI, CDI.format(count=2, devices=f"nvidia.com/gpu=0\nnvidia.com/gpu={GPU}")
    )
    machine.says(ProbeCommand.RUNC, UPSTREAM_RUNC.format(version=runc))
    machine.says(ProbeCommand.TOOLKIT, TOOLKIT.format(version=toolkit))
    machine.says(ProbeCommand.TIME, TIME.format(synchronised="yes"))
    return machine


def finding(machine, code):
    """What this check says; never a verdict that its line in the table does not announce."""
    (check,) = (check for check in CHECKS if check.code == code)
    (found,) = (found for found in examine(machine) if found.code == code)
    assert found.verdict in {*check.verdicts, DoctorVerdict.OK, DoctorVerdict.UNKNOWN}
    return found


def verdict(machine, code):
    return str(finding(machine, code).verdict)
