"""What joins GPUs: the fabric manager on NVSwitch systems, and peer memory for RDMA."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.driver import KERNEL_MODULE, loaded_modules, module_version
from agents.doctor.machine import Machine, ProbeCommand
from agents.doctor.versions import Version

PCI = "/sys/bus/pci/devices"
NVSWITCHES = "/proc/driver/nvidia-nvswitch/devices"
NVIDIA = "0x10de"
# A PCI bridge of no other kind: NVSwitches show themselves so. Source: PCI code assignment.
OTHER_BRIDGE = "0x068000"
START = "sudo systemctl enable --now nvidia-fabricmanager"
PEERMEM = (
    "sudo modprobe nvidia-peermem"
    " && echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf"
)


def nvswitches(machine: Machine) -> int:
    """How many NVSwitches there are: by their driver, else by PCI vendor and class."""
    by_driver = machine.names(NVSWITCHES)
    if by_driver:
        return len(by_driver)
    return sum(
        (machine.text(f"{PCI}/{device}/class") or "").strip() == OTHER_BRIDGE
        and (machine.text(f"{PCI}/{device}/vendor") or "").strip() == NVIDIA
        for device in machine.names(PCI) or ()
    )


def _manager(machine: Machine) -> CheckResult:
    switches = nvswitches(machine)
    if not switches:
        return ok("There is no NVSwitch here, so no fabric manager is needed.")
    wants = machine.driver.versions.driver if machine.driver else module_version(machine)
    install = f"sudo apt-get install nvidia-fabricmanager-{(wants or 'VERSION').split('.')[0]}"
    said = machine.output(ProbeCommand.FABRIC_MANAGER)
    if said is None:
        why = f"{switches} NVSwitches, but no fabric manager: CUDA fails with error 802."
        return block(why, f"{install} && {START}")
    found = re.search(r"version is\s*:?\s*(\S+)", said.text)
    if found is None or wants is None:
        return unknown("The fabric manager or the driver does not tell its version.")
    if Version(found[1]) != Version(wants):
        why = f"Fabric manager {found[1]} is not of driver {wants}: it refuses to start."
        return block(why, f"{install} && sudo systemctl restart nvidia-fabricmanager")
    active = machine.output(ProbeCommand.FABRIC_ACTIVE)
    state = active.text.strip() if active is not None else ""
    if state in ("inactive", "failed"):
        return block(f"The fabric manager is {state}: CUDA fails with error 802.", START)
    if state != "active":
        return unknown(f"Fabric manager {found[1]} fits; whether it runs cannot be told.")
    return ok(f"Fabric manager {found[1]} runs and fits the driver.")


def _peermem(machine: Machine) -> CheckResult:
    ports = machine.names("/sys/class/infiniband")
    if not ports:
        return ok("There is no RDMA device here.")
    loaded = loaded_modules(machine)
    if loaded is None:
        return unknown("The kernel does not tell which modules are loaded.")
    if "nvidia_peermem" in loaded:
        return ok("nvidia-peermem is loaded: RDMA goes straight to GPU memory.")
    if "Open Kernel Module" in (machine.text(KERNEL_MODULE) or ""):
        return ok("The open kernel module gives GPU memory to RDMA by DMA-BUF.")
    why = f"{len(ports)} RDMA devices, but nvidia-peermem is not loaded: NCCL copies by the CPU."
    return warn(why, PEERMEM)


CHECKS = (
    Check(
        "fabric.manager",
        "On NVSwitch systems: does the fabric manager run, in the driver's version?",
        (DoctorVerdict.BLOCK,),
        "NVIDIA Fabric Manager User Guide, matching versions; CUDA error 802",
        _manager,
        needs_real_driver=True,
    ),
    Check(
        "fabric.peermem",
        "With RDMA devices: can they reach GPU memory?",
        (DoctorVerdict.WARN,),
        "NVIDIA GPUDirect RDMA documentation, nvidia-peermem and DMA-BUF",
        _peermem,
        needs_real_driver=True,
    ),
)
