"""How the devices of a replica get into its container: chosen once, from what the node has.

Three ways, in the order in which they are preferred:

- `runtime`: the OCI runtime "nvidia", with the UUIDs in NVIDIA_VISIBLE_DEVICES. It needs no file,
  and sees every slice as soon as it is carved.
- `cdi`: the Container Device Interface, with a file that the agent keeps complete.
- `nvidia`: a device request with the driver "nvidia", as `docker run --gpus`. Newer engines serve
  it by CDI files of others if they find any (moby #50228), and the hook behind it refuses in the
  toolkit's mode "cdi".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from agents.admission.policy import AUTO, NodePolicy
from agents.host.container_toolkit import CONFIG, ENVVAR, HOOK, ContainerToolkit

# The CDI kind of devices that nvidia-ctk describes.
CDI_KIND = "nvidia.com/gpu"
RUNTIME_NAME = "nvidia"
VISIBLE, NOTHING = "NVIDIA_VISIBLE_DEVICES", "void"


class InjectionPath(StrEnum):
    """The words of the policy's `device_injection`, without "auto"."""

    RUNTIME = "runtime"
    CDI = "cdi"
    REQUEST = "nvidia"


_ADVANTAGES = {
    InjectionPath.RUNTIME: "the engine has the runtime nvidia, which needs no file",
    InjectionPath.CDI: "the engine reads CDI files, which the agent keeps complete",
    InjectionPath.REQUEST: "the toolkit's hook is installed",
}


@dataclass(frozen=True, slots=True)
class Injection:
    """The chosen way, and why it was chosen."""

    path: InjectionPath
    why: str = ""
    # Why it cannot work on this node; empty if it can.
    refusal: str = ""
    # Devices are looked up in a CDI file, which must name them before they are given.
    needs_spec: bool = False

    def options(self, devices: Sequence[str]) -> dict[str, Any]:
        """The engine's options of a container with these devices, by UUID. The requests are the
        arguments of docker's `DeviceRequest`, so that only what calls the engine imports docker."""
        if not devices:
            return {}
        match self.path:
            case InjectionPath.RUNTIME:
                return {"runtime": RUNTIME_NAME}
            case InjectionPath.CDI:
                names = [f"{CDI_KIND}={uuid}" for uuid in devices]
                return {"device_requests": [{"driver": "cdi", "device_ids": names}]}
            case InjectionPath.REQUEST:
                gpu = {"device_ids": list(devices), "capabilities": [["gpu"]]}
                return {"device_requests": [{"driver": "nvidia", **gpu}]}

    def environment(self, devices: Sequence[str]) -> dict[str, str]:
        """What NVIDIA's toolkit reads. "void" keeps it from adding devices: an image may ask for
        all of them, and with CDI the engine adds those that were given."""
        by_toolkit = bool(devices) and self.path is not InjectionPath.CDI
        return {
            VISIBLE: ",".join(devices) if by_toolkit else NOTHING,
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        }


def choose_injection(
    policy: NodePolicy, info: Mapping[str, Any], toolkit: ContainerToolkit
) -> Injection:
    """`info`: the engine's `GET /info`."""
    refusals = path_refusals(policy, info, toolkit)
    if policy.device_injection != AUTO:
        path = InjectionPath(policy.device_injection)
        return _injection(path, "the policy's device_injection", refusals[path], toolkit)
    passed: list[str] = []
    for path in InjectionPath:
        if not refusals[path]:
            return _injection(path, "; ".join([_ADVANTAGES[path], *passed]), "", toolkit)
        passed.append(f"not {path}: {refusals[path]}")
    why = "; ".join(f"{path}: {refusal}" for path, refusal in refusals.items())
    return _injection(InjectionPath.REQUEST, "no way is complete", why, toolkit)


def path_refusals(
    policy: NodePolicy, info: Mapping[str, Any], toolkit: ContainerToolkit
) -> dict[InjectionPath, str]:
    """Why each way cannot work on this node; empty for a way that can."""
    folders = [str(PurePosixPath(folder)) for folder in info.get("CDISpecDirs") or ()]
    folder = str(PurePosixPath(policy.cdi_spec).parent)
    variable = "" if toolkit.accepts_variable else f"{ENVVAR} is false in {CONFIG}"
    broken = "" if toolkit.is_valid else f"{CONFIG} is not valid TOML"
    runtime, cdi, request = broken, "", broken
    if RUNTIME_NAME not in (info.get("Runtimes") or {}):
        runtime = "the engine has no runtime nvidia"
    if not folders:
        cdi = "the engine reads no CDI files"
    elif folder not in folders:
        cdi = f"the engine reads CDI files in {', '.join(folders)}, not in {folder}"
    elif not toolkit.has_generator:
        cdi = f"{policy.nvidia_ctk} is not there to write {policy.cdi_spec}"
    if not toolkit.has_hook:
        request = f"{HOOK} is not installed"
    elif toolkit.mode == "cdi":
        request = "the toolkit's mode cdi refuses its hook"
    return {
        InjectionPath.RUNTIME: runtime or variable,
        InjectionPath.CDI: cdi,
        InjectionPath.REQUEST: request or variable,
    }


def _injection(path: InjectionPath, why: str, refusal: str, toolkit: ContainerToolkit) -> Injection:
    """In its mode "cdi" the runtime, too, looks devices up in a file (its internal/modifier)."""
    reads_file = path is InjectionPath.RUNTIME and toolkit.mode == "cdi"
    return Injection(path, why, refusal, path is InjectionPath.CDI or reads_file)
