"""Checks of the Docker Engine: it responds, and running jobs survive its restart and a reload of
systemd."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.machine import Machine
from agents.host.device_users import CAPABILITIES

NO_ENGINE = "The Docker Engine does not respond; see engine.answers."
SYMLINKS = "sudo nvidia-ctk system create-dev-char-symlinks --create-all"
LIVE_RESTORE = (
    'sudoedit /etc/docker/daemon.json && sudo systemctl reload docker  # with "live-restore": true'
)
# Numbers of the driver's character devices: 195 is the kernel's (devices.txt); those of other
# kinds are assigned when the module loads, and stand in /proc/devices.
MAJOR = "195"
CONTROL_MINOR = "255"
UVM_MINORS = {"nvidia-uvm": "0", "nvidia-uvm-tools": "1"}
CAPS = "nvidia-caps"
# Capabilities of the node, which no job gets.
NOT_OF_SLICES = ("config", "monitor")
_MAJOR_LINE = re.compile(r"^ *(\d+) (\S+)$", re.MULTILINE)


def _answers(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        why = f": {machine.engine_failure}" if machine.engine_failure else ""
        return block(
            f"The agent cannot use the Docker Engine, so no job can start{why}.",
            "sudo systemctl start docker",
        )
    api = machine.engine_api
    versions = f" by API {api.used}, of its {api.oldest} to {api.newest}" if api else ""
    return ok(f"Docker Engine {info.get('ServerVersion', '')} responds{versions}.")


def _reload(machine: Machine) -> CheckResult:
    """On `daemon-reload` systemd rewrites a container's device rules without the devices that have
    no link in /dev/char, and running jobs lose their GPUs."""
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    if info.get("CgroupDriver") != "systemd":
        return ok(f"The cgroup driver is {info.get('CgroupDriver')}: systemd removes no device.")
    devices = machine.names("/dev")
    if devices is None:
        return unknown("/dev cannot be read.")
    numbers = _device_numbers(machine, devices)
    unlinked = [n for n, number in numbers.items() if machine.link(f"/dev/char/{number}") is None]
    if unlinked:
        why = (
            "`systemctl daemon-reload` would take GPUs from running jobs: no link in /dev/char for"
        )
        return warn(f"{why} {', '.join(unlinked)}.", SYMLINKS)
    return ok("The cgroup driver is systemd, and all devices of jobs have links in /dev/char.")


def _device_numbers(machine: Machine, devices: tuple[str, ...]) -> dict[str, str]:
    """The number "MAJOR:MINOR" of each device file that a job may get, by its path below /dev."""
    found = _MAJOR_LINE.findall(machine.text("/proc/devices") or "")
    majors = {name: major for major, name in found}
    numbers = {n: f"{MAJOR}:{f[1]}" for n in devices if (f := re.fullmatch(r"nvidia(\d+)", n))}
    if "nvidiactl" in devices:
        numbers["nvidiactl"] = f"{MAJOR}:{CONTROL_MINOR}"
    uvm = majors.get("nvidia-uvm", "")
    numbers |= {n: f"{uvm}:{minor}" for n, minor in UVM_MINORS.items() if n in devices}
    table = (machine.text(CAPABILITIES) or "").splitlines()
    others = {line.split()[-1] for line in table if line.startswith(NOT_OF_SLICES)}
    for node in machine.names(f"/dev/{CAPS}") or ():
        minor = node.removeprefix("nvidia-cap")
        if minor not in others:
            numbers[f"{CAPS}/{node}"] = f"{majors.get(CAPS, '')}:{minor}"
    return numbers


def _live_restore(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    if not info.get("LiveRestoreEnabled"):
        return warn("A restart of the Docker Engine ends every running job.", LIVE_RESTORE)
    return ok("Jobs keep running while the Docker Engine restarts.")


CHECKS = (
    Check(
        "engine.answers",
        "Does the Docker Engine respond, by an API version that the agent knows?",
        (DoctorVerdict.BLOCK,),
        "Docker Engine API, GET /version and /info; moby #51186, #52067",
        _answers,
        needs_engine=True,
    ),
    Check(
        "engine.daemon_reload",
        "Do running jobs keep their GPUs after `systemctl daemon-reload`?",
        (DoctorVerdict.WARN,),
        "nvidia-docker #1730; nvidia-container-toolkit #48, #1227",
        _reload,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "engine.live_restore",
        "Do running jobs survive a restart of the Docker Engine?",
        (DoctorVerdict.WARN,),
        "Docker documentation, live restore; CIS Docker Benchmark",
        _live_restore,
        needs_engine=True,
    ),
)
