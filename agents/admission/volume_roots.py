"""The roots of volumes in the policy file: `volumes` by name.

[volumes]
scratch = "/srv/scratch"
datasets = { path = "/mnt/datasets", read_only = true, mounted = true }
fast = { driver = "local", options = { type = "nfs", o = "addr=nas", device = ":/{volume}" } }
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agents.contract.documents import DesiredReplica
from agents.contract.volumes import (
    MAX_ROOTS,
    ROOT_NAME,
    driver_subpath_problem,
    subpath_problem,
    target_problem,
    targets_problem,
)

KEYS = {"path": str, "read_only": bool, "mounted": bool}
DRIVER_KEYS = {"driver": str, "options": dict, "read_only": bool}
# As the engine names its plugins: with a registry and a tag, if they have one.
DRIVER_NAME = r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,254}"


@dataclass(frozen=True, slots=True)
class VolumeRoot:
    """A folder of this machine below which volumes may be."""

    name: str
    path: str
    # Nobody writes there, whatever a volume says.
    read_only: bool = False
    # It is a mount point, such as of NFS. While nothing is mounted the root is not offered, so that
    # no job writes to the disk below it.
    mounted: bool = False


@dataclass(frozen=True, slots=True)
class DriverRoot:
    """A driver of the engine's volumes, with the options of each. `{volume}` in one stands for the
    folder that the portal names, so that two volumes are two places."""

    name: str
    driver: str
    options: tuple[tuple[str, str], ...] = ()
    # Nobody writes there, whatever a volume says.
    read_only: bool = False


def read_volume_roots(value: Any) -> tuple[VolumeRoot | DriverRoot, ...]:
    """Raises ValueError with what to write instead."""
    if not isinstance(value, dict) or len(value) > MAX_ROOTS:
        raise ValueError(f'must be a table of at most {MAX_ROOTS}, such as data = "/srv/data"')
    return tuple(
        _driver_root(name, value[name])
        if isinstance(value[name], dict) and "driver" in value[name]
        else read_folder_root(name, value[name])
        for name in sorted(value)
    )


def volumes_refusal(replica: DesiredReplica, roots: tuple[VolumeRoot | DriverRoot, ...]) -> str:
    """Why this node's policy does not allow the volumes of a replica; empty if it does."""
    by_name = {root.name: root for root in roots}
    for volume in replica.volumes:
        root = by_name.get(volume.root)
        if root is None:
            return f"volume {volume.name}: this node's policy offers no root {volume.root}"
        if root.read_only and not volume.read_only:
            return f"volume {volume.name}: this node's policy offers {root.name} for reading only"
        is_driver = isinstance(root, DriverRoot)
        wrong = driver_subpath_problem if is_driver else subpath_problem
        if problem := wrong(volume.subpath) or target_problem(volume.path):
            return f"volume {volume.name}: {problem.text}"
    problem = targets_problem(volume.path for volume in replica.volumes)
    return problem.text if problem else ""


def read_folder_root(name: str, value: Any) -> VolumeRoot:
    """Raises ValueError with what to write instead."""
    if not re.fullmatch(ROOT_NAME, name):
        raise ValueError(f"{name!r}: name a root with letters, digits, '-', '_' and '.'")
    keys = {"path": value} if isinstance(value, str) else value
    if not isinstance(keys, dict) or not isinstance(keys.get("path"), str):
        raise ValueError(f'{name}: write a path, or {{ path = "/srv/data", read_only = true }}')
    for key, given in keys.items():
        if KEYS.get(key) is not type(given):
            raise ValueError(f"{name}: {key} must be one of path, read_only, mounted, of its type")
    path = keys["path"]
    if not path.startswith("/") or path == "/" or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{name}: path must be absolute, without '..', and not /")
    return VolumeRoot(name, **keys)


def _driver_root(name: str, keys: dict[str, Any]) -> DriverRoot:
    if not re.fullmatch(ROOT_NAME, name) or "_" in name:
        raise ValueError(f"{name!r}: name a driver's root with letters, digits, '-' and '.'")
    for key, given in keys.items():
        if DRIVER_KEYS.get(key) is not type(given):
            raise ValueError(
                f"{name}: {key} must be one of driver, options, read_only, of its type"
            )
    driver, options = keys["driver"], keys.get("options", {})
    if not re.fullmatch(DRIVER_NAME, driver):
        raise ValueError(f"{name}: driver must be one that docker info lists, such as local")
    if not all(isinstance(text, str) for text in options.values()):
        raise ValueError(f'{name}: options must be texts, such as {{ type = "tmpfs" }}')
    return DriverRoot(name, driver, tuple(sorted(options.items())), keys.get("read_only", False))
