"""The roots of volumes in the policy file: `volumes` by name.

[volumes]
scratch = "/srv/scratch"
datasets = { path = "/mnt/datasets", read_only = true, mounted = true }
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agents.contract.documents import DesiredReplica
from agents.contract.volumes import (
    MAX_ROOTS,
    ROOT_NAME,
    subpath_problem,
    target_problem,
    targets_problem,
)

KEYS = {"path": str, "read_only": bool, "mounted": bool}


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


def read_volume_roots(value: Any) -> tuple[VolumeRoot, ...]:
    """Raises ValueError with what to write instead."""
    if not isinstance(value, dict) or len(value) > MAX_ROOTS:
        raise ValueError(f'must be a table of at most {MAX_ROOTS}, such as data = "/srv/data"')
    return tuple(_root(name, value[name]) for name in sorted(value))


def volumes_refusal(replica: DesiredReplica, roots: tuple[VolumeRoot, ...]) -> str:
    """Why this node's policy does not allow the volumes of a replica; empty if it does."""
    by_name = {root.name: root for root in roots}
    for volume in replica.volumes:
        root = by_name.get(volume.root)
        if root is None:
            return f"volume {volume.name}: this node's policy offers no root {volume.root}"
        if root.read_only and not volume.read_only:
            return f"volume {volume.name}: this node's policy offers {root.name} for reading only"
        if problem := subpath_problem(volume.subpath) or target_problem(volume.path):
            return f"volume {volume.name}: {problem.text}"
    problem = targets_problem(volume.path for volume in replica.volumes)
    return problem.text if problem else ""


def _root(name: str, value: Any) -> VolumeRoot:
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
