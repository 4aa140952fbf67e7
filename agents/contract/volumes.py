"""Volumes: folders that outlive jobs, below the roots that a node's owner offers.

A root is a name and a path in the node's own policy. The portal names a root and a folder below it,
never a path of the host. Decision 18 says what else a job has on a node.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agents.contract.codec import omitted_by_default, rule
from agents.contract.message import Message, constant

ROOT_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
# Of a replica, of a node, and measured ones of a root.
MAX_VOLUMES = 16
MAX_ROOTS = 64
MAX_SIZES = 256
MAX_DRIVER_BYTES = 255
MAX_SUBPATH_BYTES = 1_024
MAX_TARGET_BYTES = 255
# Folders at the top of a container that the system, its runtime or decision 18 needs.
RESERVED_FOLDERS = frozenset(
    (
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin"),
        *("sys", "tmp", "usr"),
        *("caches", "checkpoint", "code", "metrics", "output", "workspace"),
    )
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class DesiredVolume:
    """A volume in a replica."""

    name: str = field(metadata=rule(max_length=64, pattern=ROOT_NAME))
    root: str = field(metadata=rule(max_length=64, pattern=ROOT_NAME))
    # Below the root; empty for the root itself.
    subpath: str = field(default="", metadata=rule(max_length=MAX_SUBPATH_BYTES))
    # In the container.
    path: str = field(default="", metadata=rule(max_length=MAX_TARGET_BYTES))
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class VolumeSize:
    """What a node measured of a folder below a root, on the disk, without following links."""

    subpath: str = field(default="", metadata=rule(max_length=MAX_SUBPATH_BYTES))
    mib: int = field(default=0, metadata=rule(minimum=0))
    files: int = field(default=0, metadata=rule(minimum=0))
    # There is more: the folder has too many files to be measured whole.
    is_partial: bool = False
    measured_at: int = field(default=0, metadata=rule(minimum=0))


@dataclass(frozen=True, slots=True)
class OfferedRoot:
    """A root that the node offers now, with the space of its file system."""

    name: str = field(metadata=rule(max_length=64, pattern=ROOT_NAME))
    read_only: bool = False
    free_mib: int = field(default=0, metadata=rule(minimum=0))
    total_mib: int = field(default=0, metadata=rule(minimum=0))
    sizes: tuple[VolumeSize, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_SIZES)
    )
    # That of the engine's volumes, whose space nobody knows; empty for a folder.
    driver: str = field(default="", metadata=omitted_by_default(max_length=MAX_DRIVER_BYTES))


def root_access(root: str, *, read_only: bool) -> str:
    """What a volume needs of a node, as one word: "datasets", or "datasets:write"."""
    return root if read_only else f"{root}:write"


def offered_access(roots: Iterable[OfferedRoot]) -> list[str]:
    """What a node with these roots offers, in the words of `root_access`."""
    return sorted(
        {root_access(root.name, read_only=True) for root in roots}
        | {root_access(root.name, read_only=False) for root in roots if not root.read_only}
    )


def subpath_problem(subpath: str) -> Message | None:
    """Why no volume may have this folder below its root."""
    if not subpath:
        return None
    if not _is_text(subpath, MAX_SUBPATH_BYTES):
        return Message("write at most %(most)s bytes without control characters", most=1_024)
    if any(part in ("", ".", "..") for part in subpath.split("/")):
        return constant("write a folder below the root, such as team/images: no '..', no '/' first")
    return None


def driver_subpath_problem(subpath: str) -> Message | None:
    """Why no volume of a driver may be called so: its name is part of the engine's."""
    if not subpath or re.fullmatch(ROOT_NAME, subpath):
        return None
    return constant("a driver keeps it: write one name as its folder, such as imagenet, or nothing")


def target_problem(path: str) -> Message | None:
    """Why no volume may appear at this path of a container."""
    if not _is_text(path, MAX_TARGET_BYTES):
        return Message("write at most %(most)s bytes without control characters", most=255)
    if not path.startswith("/") or path == "/" or str(PurePosixPath(path)) != path:
        return constant("write an absolute path, such as /data: no '..', no '/' at its end")
    parts = path[1:].split("/")
    if ".." in parts or "" in parts:
        return constant("write an absolute path, such as /data: no '..', no '/' at its end")
    if parts[0] in RESERVED_FOLDERS or parts[:2] == ["var", "run"] or parts == ["var"]:
        return Message(
            "/%(folder)s is needed by the system: use another path, such as /data", folder=parts[0]
        )
    return None


def targets_problem(paths: Iterable[str]) -> Message | None:
    """Why these paths cannot be in one container."""
    seen: list[str] = []
    for path in sorted(paths):
        for other in seen:
            if path == other:
                return Message("%(path)s is there twice: give each volume its own path", path=path)
            if path.startswith(f"{other}/"):
                return Message(
                    "%(path)s is inside %(other)s: give each volume its own path",
                    path=path,
                    other=other,
                )
        seen.append(path)
    return None


def volume_variable(name: str) -> str:
    """The environment variable with the volume's path."""
    return f"TESSERA_VOLUME_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"


def _is_text(path: str, most: int) -> bool:
    try:
        return len(path.encode()) <= most and not _CONTROL.search(path)
    except UnicodeEncodeError:
        return False
