"""Checks of the driver: it responds, its parts match, and it supports the boards."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.machine import DriverFacts, Machine, ProbeCommand
from agents.doctor.versions import Version

KERNEL_MODULE = "/proc/driver/nvidia/version"
MODULES = "/proc/modules"
REBOOT = "sudo reboot"
PERSIST = "sudo systemctl enable --now nvidia-persistenced"
# The new library does not work with the old module, so the node has to be empty.
UPGRADE = (
    "drain this node, then: sudo apt-get install --only-upgrade 'nvidia-driver-*' && sudo reboot"
)
HOLD = "sudo apt-mark hold $(dpkg-query --show --showformat '${Package} ' '*nvidia*')"
# As `apt-config dump` prints them.
_UNATTENDED = re.compile(r'^APT::Periodic::Unattended-Upgrade "(?!0?";)', re.MULTILINE)
_DRIVER_EXCLUDED = re.compile(r'^Unattended-Upgrade::Package-Blacklist:: ".*nvidia', re.MULTILINE)
NO_DRIVER = "NVML does not respond; see driver.answers."
# The first driver that knows a board's MIG. Source: NVIDIA MIG User Guide, supported GPUs.
FIRST_DRIVERS = {
    "A100": "450.80.02",
    "A30": "460.73.01",
    "H100": "525.85.12",
    "H20": "535.161.07",
    "H200": "550.90.07",
    "B200": "570.133.20",
    "GB200": "570.133.20",
    "RTX PRO 6000": "575.51.03",
    "B300": "580.82.07",
}
# From R570 and CUDA 12 on, one process may see several MIG devices.
MANY_SLICES = "570"


def _answers(machine: Machine) -> CheckResult:
    driver = machine.driver
    if driver is None:
        return block("NVML does not respond, so no job can get a GPU.", "nvidia-smi")
    if not driver.gpus:
        return block("The driver responds, but it sees no GPU.", "sudo dmesg | grep -i nvrm")
    return ok(f"The driver responds and sees {len(driver.gpus)} GPUs.")


def _version(machine: Machine) -> CheckResult:
    driver = machine.driver
    if driver is None:
        return unknown(NO_DRIVER)
    has = Version(driver.versions.driver)
    for name in sorted({gpu.product_name for gpu in driver.gpus}):
        first = first_driver(name)
        if first is not None and has < Version(first):
            why = f"Driver {has} is older than {first}, the first that supports {name}."
            return block(why, UPGRADE)
    return ok(f"Driver {has} supports every board of this machine.")


def first_driver(product_name: str) -> str | None:
    """The oldest driver for a board by its name: "NVIDIA H200 NVL" is an H200, never an H20."""
    words = f" {re.sub(r'[^A-Z0-9]+', ' ', product_name.upper())} "
    return next((first for board, first in FIRST_DRIVERS.items() if f" {board} " in words), None)


def _library(machine: Machine) -> CheckResult:
    driver, module = machine.driver, module_version(machine)
    if driver is None or module is None:
        return unknown("The version of the driver's library or of its kernel module is not known.")
    library = driver.versions.driver
    if Version(library) != Version(module):
        why = f"The library is version {library}, but the loaded kernel module is {module}."
        return block(why, REBOOT)
    nvml = driver.versions.nvml
    if not nvml.endswith(library):
        why = f"NVML {nvml} does not belong to driver {library}: two drivers are installed."
        return warn(why, "ldconfig -p | grep libnvidia-ml")
    return ok(f"Library, NVML {nvml} and kernel module belong to one driver.")


def _upgrades(machine: Machine) -> CheckResult:
    """A new library under a loaded module ends CUDA for new programs until a reboot; a running
    agent keeps the old one."""
    apt = machine.output(ProbeCommand.APT)
    if apt is None or apt.code:
        return ok("This machine has no apt, so none of its upgrades replaces the driver.")
    if not _UNATTENDED.search(apt.text):
        return ok("No unattended upgrade replaces the driver.")
    holds = machine.output(ProbeCommand.APT_HOLDS)
    if _DRIVER_EXCLUDED.search(apt.text) or (holds and "nvidia" in holds.text):
        return ok("Unattended upgrades leave the driver alone.")
    why = "Unattended upgrades may replace the driver under running jobs; new ones then fail."
    return warn(why, HOLD)


def module_version(machine: Machine) -> str | None:
    """ "580.95.05" of `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05 ...`."""
    found = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", machine.text(KERNEL_MODULE) or "")
    return found and found[1]


def _cuda(machine: Machine) -> CheckResult:
    driver = machine.driver
    if driver is None:
        return unknown(NO_DRIVER)
    cuda, has = driver.versions.cuda, driver.versions.driver
    if _has_mig(driver) and Version(has) < Version(MANY_SLICES):
        why = f"With driver {has} (CUDA {cuda}) a process sees only one of several MIG slices."
        return warn(why, "sudo apt-get install --only-upgrade 'nvidia-driver-*'")
    return ok(f"The driver supports CUDA {cuda}.")


def _has_mig(driver: DriverFacts) -> bool:
    return any(gpu.board.supports_mig or gpu.mig_current for gpu in driver.gpus)


def _nouveau(machine: Machine) -> CheckResult:
    loaded = loaded_modules(machine)
    if loaded is None:
        return unknown("The list of loaded kernel modules cannot be read.")
    if "nouveau" in loaded:
        why = "The nouveau kernel module is loaded and keeps the NVIDIA driver from using the GPUs."
        mend = "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/nouveau.conf && sudo reboot"
        return block(why, mend)
    return ok("The nouveau kernel module is not loaded.")


def loaded_modules(machine: Machine) -> frozenset[str] | None:
    text = machine.text(MODULES)
    if text is None:
        return None
    return frozenset(line.split()[0] for line in text.splitlines() if line.strip())


def _persistence(machine: Machine) -> CheckResult:
    driver = machine.driver
    if driver is None:
        return unknown(NO_DRIVER)
    if driver.not_persistent:
        numbers = ", ".join(map(str, driver.not_persistent))
        why = f"Persistence mode is off on GPU {numbers}: each first CUDA call waits for seconds,"
        return warn(f"{why} and a compute mode is lost when the last program ends.", PERSIST)
    return ok("The driver keeps every GPU ready while no program uses it.")


CHECKS = (
    Check(
        "driver.answers",
        "Does NVML respond, and does it see a GPU?",
        (DoctorVerdict.BLOCK,),
        "NVML API reference, nvmlInit and nvmlDeviceGetCount",
        _answers,
    ),
    Check(
        "driver.version",
        "Does the driver support each board?",
        (DoctorVerdict.BLOCK,),
        "NVIDIA MIG User Guide, supported GPUs and their first drivers",
        _version,
        needs_real_driver=True,
    ),
    Check(
        "driver.library",
        "Do the driver's library, NVML and the loaded kernel module have the same version?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "NVML error 18, driver/library version mismatch; /proc/driver/nvidia/version",
        _library,
        needs_real_driver=True,
    ),
    Check(
        "driver.upgrades",
        "Do unattended upgrades leave the driver alone?",
        (DoctorVerdict.WARN,),
        "apt-mark(8), hold; apt.conf of unattended-upgrades, Package-Blacklist",
        _upgrades,
        needs_real_driver=True,
    ),
    Check(
        "driver.cuda",
        "Which CUDA version does the driver support, and can a process see several MIG slices?",
        (DoctorVerdict.WARN,),
        "NVIDIA MIG User Guide, CUDA device enumeration from R570 on",
        _cuda,
        needs_real_driver=True,
    ),
    Check(
        "driver.nouveau",
        "Is the nouveau module not loaded?",
        (DoctorVerdict.BLOCK,),
        "NVIDIA Driver Installation Guide, disabling nouveau",
        _nouveau,
        needs_real_driver=True,
    ),
    Check(
        "driver.persistence",
        "Does the driver keep a GPU ready while no program uses it?",
        (DoctorVerdict.WARN,),
        "NVIDIA driver persistence documentation; nvidia-persistenced(1)",
        _persistence,
        needs_real_driver=True,
    ),
)
