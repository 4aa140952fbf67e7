"""Checks of the Docker Engine: it responds, and running jobs survive its restart and a reload of
systemd."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.machine import Machine

NO_ENGINE = "The Docker Engine does not respond; see engine.answers."
SYMLINKS = "sudo nvidia-ctk system create-dev-char-symlinks --create-all"
LIVE_RESTORE = (
    'sudoedit /etc/docker/daemon.json && sudo systemctl reload docker  # with "live-restore": true'
)
# The character devices of the NVIDIA driver. Source: the kernel's devices.txt, major 195.
MAJOR = 195
CONTROL_MINOR = "255"


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
    minors = {n: found[1] for n in devices if (found := re.fullmatch(r"nvidia(\d+)", n))}
    if "nvidiactl" in devices:
        minors["nvidiactl"] = CONTROL_MINOR
    unlinked = [n for n, m in minors.items() if machine.link(f"/dev/char/{MAJOR}:{m}") is None]
    if unlinked:
        why = (
            "`systemctl daemon-reload` would take GPUs from running jobs: no link in /dev/char for"
        )
        return warn(f"{why} {', '.join(unlinked)}.", SYMLINKS)
    return ok("The cgroup driver is systemd, and every GPU has its link in /dev/char.")


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
