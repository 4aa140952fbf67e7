"""The check of what a gang over several nodes needs of this one."""

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, ok, warn
from agents.doctor.machine import Machine

# Of Ethernet. A larger one has to be carried by every switch between the nodes.
USUAL_MTU = 1_500


def _overlay(machine: Machine) -> CheckResult:
    overlay = machine.overlay
    if overlay is None:
        return ok("The policy keeps gangs on this node's engine, or gives them the host's network.")
    if overlay.why:
        return warn(f"{overlay.why}: gangs stay on this node's engine.", overlay.mend)
    words = f"Gangs over several nodes use {overlay.kind}, with packets of {overlay.mtu} bytes"
    if overlay.device_mtu > USUAL_MTU:
        size = overlay.device_mtu - 28
        return ok(
            f"{words}. Every switch between the nodes has to carry {overlay.device_mtu} bytes: "
            f"`ping -M do -s {size} NODE` shows it; else set overlay_device_mtu in the policy."
        )
    return ok(f"{words}.")


CHECKS = (
    Check(
        "network.gangs",
        "Can gangs be spread over this node and others, on a network of their own?",
        (DoctorVerdict.WARN,),
        "ip-link(8), types vxlan and wireguard; nft(8); RFC 7348, section 4.3 on MTU",
        _overlay,
        needs_engine=True,
    ),
)
