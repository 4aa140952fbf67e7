"""The node's own rules, in a root-owned file that the portal cannot change.

A taken-over portal must not be root on its nodes: every replica is checked here again.
"""

import os
import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path

from agents.contract.documents import DesiredReplica, RuntimeKind

# Names that only the agent sets. The portal refuses them too (scheduler.core.request).
RESERVED_PREFIXES = ("NVIDIA_", "CUDA_MPS_", "TESSERA_", "PET_")
RESERVED_NAMES = frozenset(
    (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "NNODES",
        "GROUP_RANK",
    )
)


class PolicyError(Exception):
    """The file cannot be trusted or read; the agent does not start."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Each field is a key of the file. `user`: uid that containers run as. `network`: "job" gives
    every job a bridge of its own; "host" shares the host's, for gangs over several engines."""

    images: tuple[str, ...] = ("*",)
    allow_process_runtime: bool = True
    max_cpu_milli: int = 1_000_000
    max_memory_mib: int = 8 << 20
    user: int = 65_534
    pids: int = 4_096
    network: str = "job"
    on_lease_end: str = "stop"

    def refusal(self, replica: DesiredReplica, runtime: RuntimeKind) -> str:
        """Why this node will not run the replica; empty when it will."""
        if runtime is RuntimeKind.PROCESS and not self.allow_process_runtime:
            return "this node's policy forbids the process runtime"
        if not any(fnmatchcase(replica.image, pattern) for pattern in self.images):
            return f"image {replica.image} is not allowed by this node's policy"
        if replica.cpu_milli > self.max_cpu_milli or replica.memory_mib > self.max_memory_mib:
            return "CPU or memory is above this node's policy"
        for name in replica.env:
            if name in RESERVED_NAMES or name.startswith(RESERVED_PREFIXES):
                return f"environment name {name} is reserved"
        return ""


def read_policy(path: Path | None) -> Policy:
    """The policy, or the defaults where no file is named. Raises PolicyError."""
    if path is None:
        return Policy()
    try:
        mode = path.stat().st_mode
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise PolicyError(f"{path} cannot be read: {error}") from error
    if mode & 0o022:
        raise PolicyError(f"{path} can be written by others than its owner: chmod go-w {path}")
    if os.geteuid() == 0 and path.stat().st_uid != 0:
        raise PolicyError(f"{path} is not owned by root: chown root {path}")
    unknown = set(data) - {field.name for field in fields(Policy)}
    if unknown:
        raise PolicyError(f"{path}: unknown keys {', '.join(sorted(unknown))}")
    if "images" in data:
        data["images"] = tuple(data["images"])
    return Policy(**data)
