"""Checks of the NVIDIA container toolkit: version, settings and CDI devices."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.escapes import TOOLKIT_ESCAPES, TOOLKIT_RECOMMENDED, cve_names, open_escapes
from agents.doctor.machine import Machine, ProbeCommand
from agents.doctor.versions import Version
from agents.host.container_toolkit import (
    CONFIG,
    ENVVAR,
    ContainerToolkit,
    read_container_toolkit,
)
from agents.runtime.injection import (
    RUNTIME_NAME,
    InjectionPath,
    choose_injection,
    path_refusals,
)

# Written by nvidia-cdi-refresh.service. Engines prefer /var/run/cdi to /etc/cdi.
REFRESHED = "/var/run/cdi/nvidia.yaml"
NO_REFRESH = (
    "sudo systemctl disable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service"
    f" && sudo rm {REFRESHED}"
)
UPGRADE = "sudo apt-get update && sudo apt-get install --only-upgrade nvidia-container-toolkit"
INSTALL = "sudo apt-get update && sudo apt-get install nvidia-container-toolkit"
CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
NOT_DEFAULT = (
    "sudo nvidia-ctk runtime configure --runtime=docker --nvidia-set-as-default=false"
    " && sudo systemctl restart docker"
)
GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
NO_ENGINE = "The Docker Engine does not respond; see engine.answers."


def toolkit_version(machine: Machine) -> Version | None:
    """From `nvidia-ctk`; from `nvidia-container-cli` with toolkits that are too old to have it."""
    for command, words in (
        (ProbeCommand.TOOLKIT, r"CLI version (\S+)"),
        (ProbeCommand.TOOLKIT_CLI, r"cli-version: (\S+)"),
    ):
        output = machine.output(command)
        found = re.search(words, output.text) if output is not None else None
        if found is not None:
            return Version(found[1])
    return None


def _escapes(machine: Machine) -> CheckResult:
    version = toolkit_version(machine)
    if version is None:
        missing = all(
            machine.output(c) is None for c in (ProbeCommand.TOOLKIT, ProbeCommand.TOOLKIT_CLI)
        )
        if missing:
            return block("The NVIDIA container toolkit is not installed.", INSTALL)
        return unknown("The version of the NVIDIA container toolkit is not known.")
    found = open_escapes(TOOLKIT_ESCAPES, version)
    if found:
        why = f"Container toolkit {version} has {', '.join(cve_names(found))}."
        return block(why, UPGRADE)
    if version < Version(TOOLKIT_RECOMMENDED):
        why = f"Container toolkit {version} lacks the hardening of {TOOLKIT_RECOMMENDED}."
        return warn(why, UPGRADE)
    why = f"Container toolkit {version} has no known container escape."
    return ok(why)


def _runtime(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    refusals = path_refusals(machine.policy, info, _toolkit(machine))
    if RUNTIME_NAME in (info.get("Runtimes") or {}):
        return ok("The Docker Engine has the nvidia runtime.")
    if not refusals[InjectionPath.CDI]:
        return ok("The Docker Engine has no nvidia runtime, and reads CDI files instead.")
    if not refusals[InjectionPath.REQUEST]:
        why = "The Docker Engine has no nvidia runtime: only the toolkit's hook passes GPUs."
        return warn(why, CONFIGURE)
    if machine.driver is not None and not machine.driver.gpus:
        return warn("The Docker Engine has no nvidia runtime.", CONFIGURE)
    why = "No container can get a GPU: the Docker Engine has no nvidia runtime"
    rest = f"{refusals[InjectionPath.CDI]}; {refusals[InjectionPath.REQUEST]}"
    return block(f"{why}; {rest}.", CONFIGURE)


def _how_injected(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    toolkit = _toolkit(machine)
    chosen = choose_injection(machine.policy, info, toolkit)
    if chosen.refusal:
        why = f"Jobs get no GPU by {chosen.path} ({chosen.why}): {chosen.refusal}."
        return block(why, CONFIGURE)
    newer = machine.text(REFRESHED) if chosen.needs_spec else None
    if newer is not None and machine.policy.cdi_spec != REFRESHED:
        why = f"{REFRESHED} is read before the agent's file, and does not follow changes of slices."
        return warn(why, NO_REFRESH)
    mode = f"the toolkit's mode is {toolkit.mode}"
    return ok(f"Jobs get their GPUs by {chosen.path}: {chosen.why}; {mode}.")


def _toolkit(machine: Machine) -> ContainerToolkit:
    return read_container_toolkit(machine, machine.policy.nvidia_ctk)


def _uses_files(machine: Machine) -> bool:
    """Whether containers' devices may come from CDI files. Newer engines look there first even for
    a device request with the driver nvidia (moby #50228)."""
    chosen = choose_injection(machine.policy, machine.engine or {}, _toolkit(machine))
    return chosen.needs_spec or chosen.path is InjectionPath.REQUEST


def _default(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    default = info.get("DefaultRuntime", "")
    if default == "nvidia":
        why = "nvidia is the default runtime: an image run without the agent can get every GPU."
        return warn(why, NOT_DEFAULT)
    return ok(f"The default runtime is {default or 'the engine’s own'}.")


def _envvar(machine: Machine) -> CheckResult:
    toolkit = _toolkit(machine)
    if not toolkit.is_valid:
        return block(
            f"{CONFIG} is not valid TOML: the toolkit refuses to start.", f"sudoedit {CONFIG}"
        )
    if toolkit_version(machine) is None:
        return unknown("There is no container toolkit to configure; see toolkit.escapes.")
    if not toolkit.accepts_variable:
        return ok("Images cannot request GPUs by an environment variable.")
    chosen = choose_injection(machine.policy, machine.engine or {}, toolkit)
    if chosen.path is InjectionPath.CDI:
        why = "Any image can request every GPU by its own NVIDIA_VISIBLE_DEVICES; jobs of the"
        why += " agent cannot, because the agent sets the variable."
        return warn(why, f"sudo nvidia-ctk config --in-place --set {ENVVAR}=false")
    return ok("GPUs are requested by NVIDIA_VISIBLE_DEVICES, which the agent sets in every job.")


def _devices(machine: Machine) -> frozenset[str]:
    """CDI device names without their kind: "0", "GPU-<uuid>", "MIG-<uuid>", "all"."""
    output = machine.output(ProbeCommand.CDI)
    return frozenset(re.findall(r"^nvidia\.com/gpu=(\S+)$", output.text if output else "", re.M))


def _cdi(machine: Machine) -> CheckResult:
    if machine.engine is not None and not _uses_files(machine):
        return ok("No device of a job comes from a CDI file.")
    listed, driver = _devices(machine), machine.driver
    if driver is None:
        return unknown("NVML does not respond; see driver.answers.")
    if not listed:
        return ok("CDI lists no device: the toolkit's legacy hook passes the GPUs.")
    uuids = {name for name in listed if name.startswith(("GPU-", "MIG-"))}
    if not uuids:
        return ok(f"CDI lists {len(listed)} devices by number, so their UUIDs were not compared.")
    existing = {gpu.uuid for gpu in driver.gpus if not gpu.mig_current} | set(driver.slices)
    # A GPU in MIG mode may be listed too, which is harmless.
    gone = uuids - existing - {gpu.uuid for gpu in driver.gpus}
    if gone or existing - uuids:
        why = f"CDI is stale: {len(existing - uuids)} devices are not in it, {len(gone)} are gone."
        return warn(why, GENERATE)
    return ok(f"CDI lists all {len(existing)} devices.")


CHECKS = (
    Check(
        "toolkit.escapes",
        "Does the NVIDIA container toolkit have a known container escape?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "NVIDIA security bulletins of the container toolkit, 2024 to 2025; its release notes",
        _escapes,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.runtime",
        "Does the Docker Engine have the nvidia runtime, or another way to pass a GPU?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "NVIDIA Container Toolkit install guide, configuring Docker",
        _runtime,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.injection",
        "How do jobs get their GPUs, and do the engine and the toolkit allow it?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "nvidia-container-toolkit, runtime modes; moby #50228; nvidia-container-toolkit #1828",
        _how_injected,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.default_runtime",
        "Is nvidia not the default runtime?",
        (DoctorVerdict.WARN,),
        "CUDA base images set NVIDIA_VISIBLE_DEVICES=all",
        _default,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.envvar",
        "Can an image request GPUs by its own NVIDIA_VISIBLE_DEVICES?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        f"nvidia-container-toolkit api/config/v1, {ENVVAR}; k8s-device-plugin #203",
        _envvar,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.cdi",
        "Does CDI list the current GPUs and slices?",
        (DoctorVerdict.WARN,),
        "HAMi #1903, unresolvable CDI devices after a repartition",
        _cdi,
        needs_real_driver=True,
        needs_engine=True,
    ),
)
