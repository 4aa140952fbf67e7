"""The node owner's rules, in a root-owned file that the portal cannot change.

A compromised portal must not be root on its nodes, so every replica is checked here again.
"""

import os
import re
import tomllib
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from agents.admission.git_hosts import git_hosts_problem, git_refusal
from agents.admission.project_users import DEFAULT_RANGE, project_user, read_range
from agents.admission.shared_caches import SharedCache, read_shared_caches
from agents.admission.volume_roots import (
    DriverRoot,
    VolumeRoot,
    read_volume_roots,
    volumes_refusal,
)
from agents.contract.documents import DesiredReplica, RuntimeKind, SliceKind
from agents.contract.environment import is_environment_name, is_reserved
from agents.contract.gang_network import OverlayKind
from agents.contract.image_digest import is_local
from agents.contract.image_reference import is_image_allowed, pattern_problem, pinned_image
from agents.contract.lease import DEFAULT as DEFAULT_LEASE_END
from agents.contract.lease import LeaseEnd
from agents.contract.rank_network import MnnvlUse
from agents.facts.images import WantedImage
from agents.host.system_reserve import AUTO as AUTO_RESERVE
from agents.host.system_reserve import HostCapacity, reserved_cpu_milli, reserved_memory_mib
from agents.images.pruning import read_cache_limit

# Chosen at the agent's start, by what the engine and the toolkit have.
AUTO = "auto"
CHOICES = {
    "network": ("job", "host"),
    "numa": ("bind", "cpus", "off"),
    "on_lease_end": tuple(map(str, LeaseEnd)),
    "device_injection": (AUTO, "runtime", "cdi", "nvidia"),
    "gdr_level": (AUTO, "LOC", "PIX", "PXB", "PHB", "SYS"),
    "mnnvl": tuple(map(str, MnnvlUse)),
    "overlay_kind": (AUTO, *map(str, OverlayKind)),
}
# Of the kernel: at most 15 characters.
INTERFACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}")

RESERVES = {"cpu_reserve": reserved_cpu_milli, "memory_reserve": reserved_memory_mib}
PATTERNS = ("images", "keep_images")
TABLES: Mapping[str, Callable[[Any], object]] = {
    "volumes": read_volume_roots,
    "caches": read_shared_caches,
}
PATHS = ("cdi_spec", "nvidia_ctk", "nvidia_smi")
OVERLAY_OFF = "off"
OVERLAY_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")
MAX_NUMBERS = {"overlay_port": 65_535, "overlay_device_mtu": 65_535}


class PolicyError(Exception):
    """The file cannot be read or must not be trusted; the agent does not start."""


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The keys of the file."""

    # Patterns of allowed images (agents.contract.image_reference).
    images: tuple[str, ...] = ("*",)
    allow_process_runtime: bool = True
    max_cpu_milli: int = 1_000_000
    max_memory_mib: int = 8 << 20
    max_disk_mib: int = 1 << 30
    # The limit of what replicas write that requested no disk, which reserves none; 0 for no limit.
    default_disk_mib: int = 100 << 10
    # What jobs are not offered, of the CPUs and the memory: agents/host/system_reserve.py.
    cpu_reserve: str = AUTO_RESERVE
    memory_reserve: str = AUTO_RESERVE
    # With several NUMA nodes: "bind" the CPUs and the memory of containers to the nodes of
    # their GPUs, their "cpus" only, or neither ("off").
    numa: str = "bind"
    # The uid that containers run as: of the project (`project_users`), or `user` for replicas with
    # an MPS share, whose daemon runs as one user, and where that is "off".
    project_users: str = DEFAULT_RANGE
    user: int = 65_534
    pids: int = 4_096
    # A container cannot write to its image: only to the folders that it is given, and its volumes.
    read_only_images: bool = False
    # "job": a network for each job. "host": the host's network, without isolation between jobs.
    network: str = "job"
    # With the host's network, the interface by which ranks reach those of other nodes; "auto": that
    # with the node's address.
    fabric_interface: str = AUTO
    # Gangs may use this machine's RDMA devices: each replica those of its own GPUs.
    rdma: bool = False
    # How far a GPU may be from an RDMA device that reaches its memory, in NCCL's words, where
    # nvidia-peermem is loaded; "auto": NCCL decides.
    gdr_level: str = AUTO
    # The InfiniBand switches reduce (SHARP), and NCCL is to use that.
    sharp: bool = False
    # NVLinks between nodes: as NCCL finds them, required ("on") or not used ("off").
    mnnvl: str = str(MnnvlUse.AUTO)
    # Gangs over several engines: nodes whose overlay has this name reach each other; or "off". Its
    # kind, with "auto" WireGuard where the kernel has it, else VXLAN in the clear; its UDP port;
    # and the packet size of the network between the nodes, 0 for that of the node's device.
    overlay: str = "default"
    overlay_kind: str = AUTO
    overlay_port: int = 14_789
    overlay_device_mtu: int = 0
    # What happens to running work when the lease ends: "stop" it, or "keep" it running. The portal
    # knows it, and tries no job elsewhere that may still run here.
    on_lease_end: str = str(DEFAULT_LEASE_END)
    # Codes of docs/doctor.md that do not block this node.
    accepted_checks: tuple[str, ...] = ()
    # MIG instances that others created are the agent's to delete.
    adopt_instances: bool = False
    # An unused GPU is reset if a change of its mode requires that.
    may_reset_gpus: bool = False
    # How containers get their GPUs: "auto", or one of agents/runtime/injection.py. With "cdi" the
    # agent writes the file `cdi_spec` by `nvidia_ctk`.
    device_injection: str = AUTO
    cdi_spec: str = "/etc/cdi/nvidia.yaml"
    nvidia_ctk: str = "/usr/bin/nvidia-ctk"
    nvidia_smi: str = "/usr/bin/nvidia-smi"
    # Tries to pull an image before its replicas fail; seconds that a try may make no progress.
    pull_tries: int = 6
    pull_stall_seconds: int = 300
    # What all images of the engine may have together: "60%" of its disk, "500GiB", or "off". Beyond
    # it, those that jobs pulled are removed, the least recently used first, except `keep_images`.
    image_cache: str = "60%"
    keep_images: tuple[str, ...] = ()
    # Folders of this machine below which volumes may be: a table.
    volumes: tuple[VolumeRoot | DriverRoot, ...] = ()
    # Folders that the jobs of some projects read: tables by name.
    caches: tuple[SharedCache, ...] = ()
    # Hosts, some with a port, from which this node fetches the code of jobs by git, and a file with
    # the authorities that sign these hosts; empty for those of the machine.
    git_hosts: tuple[str, ...] = ()
    git_ca_file: str = ""

    def reserve(self, total: HostCapacity, *, simulated: bool = False) -> HostCapacity:
        """The part of `total` that jobs are not offered.

        A simulated node keeps nothing unless the file says so: it only shows a machine."""
        is_auto = {self.cpu_reserve, self.memory_reserve} == {AUTO_RESERVE}
        if simulated and is_auto:
            return HostCapacity(0, 0)
        return HostCapacity(
            reserved_cpu_milli(self.cpu_reserve, total.cpu_milli),
            reserved_memory_mib(self.memory_reserve, total.memory_mib),
        )

    def user_of(self, replica: DesiredReplica) -> int:
        """The uid and gid of its container."""
        has_share = any(device.kind is SliceKind.MPS for device in replica.devices)
        return self.user if has_share else self.user_of_project(replica.project)

    def user_of_project(self, project: str) -> int:
        """The uid and gid of its containers without an MPS share. `project`: empty for none."""
        users = read_range(self.project_users)
        return project_user(users, project) if users is not None and project else self.user

    def wanted_image(self, replica: DesiredReplica) -> WantedImage:
        """By its digest, if it has to have one and this node's patterns admit any; by its tag where
        they admit that tag alone. The runtime compares what the tag means with the digest."""
        digest, name = replica.image_digest, replica.image
        if digest and not is_local(digest):
            pinned = pinned_image(name, digest)
            name = pinned if is_image_allowed(pinned, self.images) else name
        return WantedImage(name, replica.project)

    def refusal(self, replica: DesiredReplica, runtime: RuntimeKind) -> str:
        """Why this node will not run the replica; empty if it will."""
        if runtime is RuntimeKind.PROCESS and not self.allow_process_runtime:
            return "this node's policy forbids the process runtime"
        if not is_image_allowed(replica.image, self.images):
            return f"image {replica.image} is not allowed by this node's policy"
        if replica.cpu_milli > self.max_cpu_milli or replica.memory_mib > self.max_memory_mib:
            return "CPU or memory is above this node's policy"
        if replica.disk_mib > self.max_disk_mib:
            return "disk is above this node's policy"
        if replica.rdma and not self.rdma:
            return "this node's policy does not offer RDMA to jobs"
        if why := volumes_refusal(replica, self.volumes) or git_refusal(replica, self.git_hosts):
            return why
        for name in replica.env:
            if not is_environment_name(name):
                return f"{name!r} is not a valid environment name"
            if is_reserved(name):
                return f"environment name {name} is reserved"
        return ""


def read_policy(path: Path | None) -> NodePolicy:
    """The policy in the file, or the defaults if `path` is None. Raises PolicyError."""
    if path is None:
        return NodePolicy()
    try:
        mode = path.stat().st_mode
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8
        raise PolicyError(f"{path} cannot be read: {error}") from error
    if mode & 0o022:
        raise PolicyError(f"{path} is writable by group or others: chmod go-w {path}")
    if os.geteuid() == 0 and path.stat().st_uid != 0:
        raise PolicyError(f"{path} is not owned by root: chown root {path}")
    unknown = set(data) - {field.name for field in fields(NodePolicy)}
    if unknown:
        raise PolicyError(f"{path}: unknown keys {', '.join(sorted(unknown))}")
    if "user" in data:
        # A file that names one user and no range, as of an earlier version, means that user.
        data.setdefault("project_users", "off")
    policy = NodePolicy(**{name: _value(path, name, value) for name, value in data.items()})
    for name in PATTERNS:
        for pattern in getattr(policy, name):
            if problem := pattern_problem(pattern):
                raise PolicyError(f"{path}: {name}: {pattern!r}: {problem}")
    if why := git_hosts_problem(policy.git_hosts):
        raise PolicyError(f"{path}: git_hosts: {why}")
    return policy


def _value(path: Path, name: str, value: Any) -> Any:
    """The value of a key, checked against the type of its default."""
    default = getattr(NodePolicy(), name)
    if read_table := TABLES.get(name):
        try:
            return read_table(value)
        except ValueError as error:
            raise PolicyError(f"{path}: {name}: {error}") from error
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return tuple(value)
        raise PolicyError(f"{path}: {name} must be a list of strings")
    if type(value) is not type(default):
        raise PolicyError(f"{path}: {name} must be of type {type(default).__name__}")
    if isinstance(value, int) and value < 0:
        raise PolicyError(f"{path}: {name} must not be below 0")
    if name in MAX_NUMBERS and value > MAX_NUMBERS[name]:
        raise PolicyError(f"{path}: {name} must not be above {MAX_NUMBERS[name]}")
    if name == "overlay" and not OVERLAY_NAME.fullmatch(value):
        raise PolicyError(f"{path}: {name} must be a short name of small letters and digits")
    if name == "git_ca_file" and value and not value.startswith("/"):
        raise PolicyError(f"{path}: {name} must be an absolute path, or empty")
    if name in PATHS and not value.startswith("/"):
        raise PolicyError(f"{path}: {name} must be an absolute path")
    if name in CHOICES and value not in CHOICES[name]:
        raise PolicyError(f"{path}: {name} must be one of {', '.join(CHOICES[name])}")
    if name == "project_users":
        try:
            read_range(value)
        except ValueError as error:
            raise PolicyError(f"{path}: {name} {error}") from error
    if name == "fabric_interface" and not INTERFACE_NAME.fullmatch(value):
        raise PolicyError(f"{path}: {name} must be the name of an interface, or auto")
    if name == "image_cache":
        try:
            read_cache_limit(value)
        except ArgumentTypeError as error:
            raise PolicyError(f"{path}: {name}: {error}") from error
    if name in RESERVES:
        try:
            RESERVES[name](value, 0)
        except ValueError as error:
            raise PolicyError(f"{path}: {name} {error}") from error
    return value
