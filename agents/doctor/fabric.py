"""Checks of the GPU fabric: the fabric manager on NVSwitch systems, and peer memory for RDMA."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.driver import KERNEL_MODULE, loaded_modules, module_version
from agents.doctor.machine import Machine, ProbeCommand
from agents.doctor.versions import Version

PCI = "/sys/bus/pci/devices"
NVSWITCHES = "/proc/driver/nvidia-nvswitch/devices"
NVIDIA = "0x10de"
# PCI class "other bridge", which NVSwitches have. Source: PCI code assignment.
OTHER_BRIDGE = "0x068000"
START = "sudo systemctl enable --now nvidia-fabricmanager"
PEERMEM = (
    "sudo modprobe nvidia-peermem"
    " && echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf"
)


def nvswitches(machine: Machine) -> int:
    """The number of NVSwitches: by their driver, else by PCI vendor and class."""
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
        return ok("This machine has no NVSwitch and needs no fabric manager.")
    required = machine.driver.versions.driver if machine.driver else module_version(machine)
    install = f"sudo apt-get install nvidia-fabricmanager-{(required or 'VERSION').split('.')[0]}"
    output = machine.output(ProbeCommand.FABRIC_MANAGER)
    if output is None:
        why = f"{switches} NVSwitches, but no fabric manager: CUDA fails with error 802."
        return block(why, f"{install} && {START}")
    found = re.search(r"version is\s*:?\s*(\S+)", output.text)
    if found is None or required is None:
        return unknown("The version of the fabric manager or of the driver is not known.")
    if Version(found[1]) != Version(required):
        why = f"Fabric manager {found[1]} does not match driver {required}: it refuses to start."
        return block(why, f"{install} && sudo systemctl restart nvidia-fabricmanager")
    active = machine.output(ProbeCommand.FABRIC_ACTIVE)
    state = active.text.strip() if active is not None else ""
    if state in ("inactive", "failed"):
        return block(f"The fabric manager is {state}: CUDA fails with error 802.", START)
    if state != "active":
        return unknown(
            f"Fabric manager {found[1]} matches the driver; whether it runs is not known."
        )
    return ok(f"Fabric manager {found[1]} runs and matches the driver.")


def _peermem(machine: Machine) -> CheckResult:
    ports = machine.names("/sys/class/infiniband")
    if not ports:
        return ok("This machine has no RDMA device.")
    loaded = loaded_modules(machine)
    if loaded is None:
        return unknown("The list of loaded kernel modules cannot be read.")
    if "nvidia_peermem" in loaded:
        return ok("nvidia-peermem is loaded: RDMA can access GPU memory.")
    if "Open Kernel Module" in (machine.text(KERNEL_MODULE) or ""):
        return ok("The open kernel module lets RDMA access GPU memory by DMA-BUF.")
    why = (
        f"{len(ports)} RDMA devices, but nvidia-peermem is not loaded: NCCL copies through the CPU."
    )
    return warn(why, PEERMEM)


CHECKS = (
    Check(
        "fabric.manager",
        "On NVSwitch systems: does the fabric manager run, with the driver's version?",
        (DoctorVerdict.BLOCK,),
        "NVIDIA Fabric Manager User Guide, matching versions; CUDA error 802",
        _manager,
        needs_real_driver=True,
    ),
    Check(
        "fabric.peermem",
        "With RDMA devices: can they access GPU memory?",
        (DoctorVerdict.WARN,),
        "NVIDIA GPUDirect RDMA documentation, nvidia-peermem and DMA-BUF",
        _peermem,
        needs_real_driver=True,
    ),
)
