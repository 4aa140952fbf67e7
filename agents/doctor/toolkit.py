"""The NVIDIA container toolkit: its version, its settings, and what it lists for CDI."""

import re
import tomllib
from typing import Any

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.escapes import TOOLKIT_ESCAPES, TOOLKIT_RECOMMENDED, cve_names, open_escapes
from agents.doctor.machine import Machine, ProbeCommand
from agents.doctor.versions import Version

CONFIG = "/etc/nvidia-container-runtime/config.toml"
ENVVAR = "accept-nvidia-visible-devices-envvar-when-unprivileged"
UPGRADE = "sudo apt-get update && sudo apt-get install --only-upgrade nvidia-container-toolkit"
INSTALL = "sudo apt-get update && sudo apt-get install nvidia-container-toolkit"
CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
NOT_DEFAULT = (
    "sudo nvidia-ctk runtime configure --runtime=docker --nvidia-set-as-default=false"
    " && sudo systemctl restart docker"
)
GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
NO_ENGINE = "The Docker Engine does not answer; see engine.answers."


def toolkit_version(machine: Machine) -> Version | None:
    """Of `nvidia-ctk`; where that is too old to be there, of `nvidia-container-cli`."""
    for command, words in (
        (ProbeCommand.TOOLKIT, r"CLI version (\S+)"),
        (ProbeCommand.TOOLKIT_CLI, r"cli-version: (\S+)"),
    ):
        said = machine.output(command)
        found = re.search(words, said.text) if said is not None else None
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
        return unknown("The NVIDIA container toolkit does not tell its version.")
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
    if "nvidia" not in (info.get("Runtimes") or {}):
        return warn("The Docker Engine has no nvidia runtime.", CONFIGURE)
    return ok("The Docker Engine has the nvidia runtime.")


def _default(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    default = info.get("DefaultRuntime", "")
    if default == "nvidia":
        why = "nvidia is the default runtime: an image run without the agent may take every GPU."
        return warn(why, NOT_DEFAULT)
    return ok(f"The default runtime is {default or 'the engine’s own'}.")


def _settings(machine: Machine) -> dict[str, Any] | None:
    """The toolkit's settings; {} where no file changes its defaults, None where it is broken."""
    try:
        return tomllib.loads(machine.text(CONFIG) or "")
    except tomllib.TOMLDecodeError:
        return None


def _envvar(machine: Machine) -> CheckResult:
    settings = _settings(machine)
    if settings is None:
        return block(f"{CONFIG} is not TOML: the toolkit refuses to start.", f"sudoedit {CONFIG}")
    if toolkit_version(machine) is None:
        return unknown("There is no container toolkit to set; see toolkit.escapes.")
    # The toolkit's own default is true: source, its api/config/v1.
    if settings.get(ENVVAR, True):
        why = "Any image may ask for every GPU by its own NVIDIA_VISIBLE_DEVICES; jobs of the"
        why += " agent cannot, it sets that itself."
        mend = f"sudo nvidia-ctk config --in-place --set {ENVVAR}=false"
        return warn(why, f"{mend}  # only where GPUs are given by CDI")
    if not _devices(machine):
        why = f"{ENVVAR} is false and CDI lists no device: the legacy hook refuses every job."
        return warn(why, GENERATE)
    return ok("Images cannot ask for GPUs by an environment variable.")


def _devices(machine: Machine) -> frozenset[str]:
    """Names that CDI knows, without their kind: "0", "GPU-<uuid>", "MIG-<uuid>", "all"."""
    said = machine.output(ProbeCommand.CDI)
    return frozenset(re.findall(r"^nvidia\.com/gpu=(\S+)$", said.text if said else "", re.M))


def _cdi(machine: Machine) -> CheckResult:
    listed, driver = _devices(machine), machine.driver
    if driver is None:
        return unknown("NVML does not answer; see driver.answers.")
    if not listed:
        return ok("CDI lists no device: GPUs are given by the toolkit's legacy hook.")
    uuids = {name for name in listed if name.startswith(("GPU-", "MIG-"))}
    if not uuids:
        return ok(f"CDI lists {len(listed)} devices by number, so their UUIDs were not compared.")
    there = {gpu.uuid for gpu in driver.gpus if not gpu.mig_current} | set(driver.slices)
    # A whole GPU in MIG mode may be listed too; it is no harm.
    gone = uuids - there - {gpu.uuid for gpu in driver.gpus}
    if gone or there - uuids:
        why = f"CDI is stale: {len(there - uuids)} devices are not in it, {len(gone)} are gone."
        return warn(why, GENERATE)
    return ok(f"CDI lists all {len(there)} devices that stand.")


CHECKS = (
    Check(
        "toolkit.escapes",
        "Does the NVIDIA container toolkit have a known way out of a container?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "NVIDIA security bulletins of the container toolkit, 2024 to 2025; its release notes",
        _escapes,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.runtime",
        "Does the Docker Engine have the nvidia runtime?",
        (DoctorVerdict.WARN,),
        "NVIDIA Container Toolkit install guide, configuring Docker",
        _runtime,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.default_runtime",
        "Is nvidia kept from being the default runtime?",
        (DoctorVerdict.WARN,),
        "CUDA base images set NVIDIA_VISIBLE_DEVICES=all",
        _default,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.envvar",
        "May an image ask for GPUs by its own NVIDIA_VISIBLE_DEVICES?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        f"nvidia-container-toolkit api/config/v1, {ENVVAR}; k8s-device-plugin #203",
        _envvar,
        needs_real_driver=True,
        needs_engine=True,
    ),
    Check(
        "toolkit.cdi",
        "Does CDI list the GPUs and slices that stand now?",
        (DoctorVerdict.WARN,),
        "HAMi #1903, unresolvable CDI devices after a repartition",
        _cdi,
        needs_real_driver=True,
        needs_engine=True,
    ),
)
