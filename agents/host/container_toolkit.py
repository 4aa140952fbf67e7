"""NVIDIA's container toolkit as installed on the host: its settings and its programs."""

import tomllib
from dataclasses import dataclass
from pathlib import PurePosixPath

from agents.host.files import HostFiles
from agents.host.programs import SEARCH_PATH

CONFIG = "/etc/nvidia-container-runtime/config.toml"
# Whether containers may name devices by NVIDIA_VISIBLE_DEVICES; the toolkit's own default is true
# (its api/config/v1).
ENVVAR = "accept-nvidia-visible-devices-envvar-when-unprivileged"
# The engine offers the device driver "nvidia" if it finds this program on its path.
HOOK = "nvidia-container-runtime-hook"


@dataclass(frozen=True, slots=True)
class ContainerToolkit:
    # "auto", "legacy", "cdi", "jit-cdi" or "csv". Source: the toolkit's internal/info.
    mode: str = "auto"
    accepts_variable: bool = True
    has_hook: bool = False
    # The program that writes CDI files.
    has_generator: bool = False
    # With an invalid settings file the toolkit starts no container.
    is_valid: bool = True


def read_container_toolkit(files: HostFiles, generator: str) -> ContainerToolkit:
    """`generator`: the path of nvidia-ctk. Without a settings file the toolkit's defaults count."""
    has_hook = any(HOOK in (files.names(folder) or ()) for folder in SEARCH_PATH.split(":"))
    path = PurePosixPath(generator)
    has_generator = path.name in (files.names(str(path.parent)) or ())
    try:
        settings = tomllib.loads(files.text(CONFIG) or "")
    except tomllib.TOMLDecodeError:
        return ContainerToolkit(has_hook=has_hook, has_generator=has_generator, is_valid=False)
    section = settings.get("nvidia-container-runtime")
    mode = section.get("mode") if isinstance(section, dict) else None
    return ContainerToolkit(
        str(mode or "auto"), bool(settings.get(ENVVAR, True)), has_hook, has_generator
    )
