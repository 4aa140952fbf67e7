"""The engine's options for a container, from a replica's typed values and the node's policy.

Users have no way to set a HostConfig."""

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.types import DriverConfig, LogConfig, Mount, Ulimit

from agents.admission.policy import NodePolicy
from agents.contract.container_names import container_name
from agents.contract.documents import DesiredReplica, Rendezvous
from agents.launchers.launch import (
    home_in_container,
    launch_command,
    launch_files,
    replica_environment,
)
from agents.launchers.registry import LAUNCHERS
from agents.profiler.start import image_paths
from agents.runtime.docker_images import ChosenImage
from agents.runtime.docker_network import HOST
from agents.runtime.grants import Grant, GrantProvider, VolumeMount
from agents.runtime.image import image_folder, image_program, image_variables
from agents.runtime.injection import Injection
from agents.runtime.work_folders import make_workspace, write_launcher_files
from agents.workspace.environment import has_code, start_folder
from agents.workspace.folders import IN_CONTAINER, ReplicaFolders
from agents.workspace.workspaces import Workspaces

# The prefix of labels that mark the agent's containers and networks.
LABEL = "tessera."
PORT = 29_500
# Programs that keep temporary files for longer use it; it is the same folder.
VAR_TMP = Path("/var/tmp")  # noqa: S108
# Two files, so that a follower can still read the previous one.
LOG_ROTATION = {"max-size": "64m", "max-file": "2"}
# The engine's minimum, in billionths of a CPU.
MIN_NANO_CPUS = 10_000_000
OPEN_FILES = 65_535
# If the host runs out of memory, the kernel ends a job before the engine or the agent, which have 0
# or less. proc(5): up to 1000.
OOM_SCORE = 500


@dataclass(frozen=True, slots=True)
class ContainerRecipe:
    """How containers are created on one node."""

    node: str
    policy: NodePolicy
    injection: Injection
    # What a replica gets beside its devices.
    grant: GrantProvider
    workspaces: Workspaces
    # The node's address for other nodes; empty if it is not known.
    address: str = ""

    def expected_rendezvous(self, replica: DesiredReplica, port: int = PORT) -> Rendezvous:
        """Where this gang meets if rank 0 is on this engine. `port`: on the host's network."""
        if self.policy.network == HOST:
            return Rendezvous(address=self._host_address(), port=port)
        names = [container_name(replica.job, replica.attempt, i) for i in range(replica.world)]
        return Rendezvous(address=names[0], port=PORT, peers=tuple(names))

    def options(
        self,
        replica: DesiredReplica,
        devices: Sequence[str],
        rendezvous: Rendezvous,
        image: ChosenImage,
    ) -> dict[str, Any]:
        """The hardened container, except for its network. Users set none of these fields freely."""
        grant, user = self.grant(replica, devices), self.policy.user_of(replica)
        program = launch_command(replica, rendezvous, IN_CONTAINER)
        folder = str(start_folder(replica, IN_CONTAINER))
        if LAUNCHERS[replica.launcher].keeps_entrypoint:
            attrs = image.attrs
            program, folder = image_program(attrs, program), image_folder(attrs) or folder
        return {
            "image": image.name,
            "command": [*grant.wrapper, *program],
            "entrypoint": [],
            "environment": self.environment(replica, devices, rendezvous)
            | image_paths(replica, image_variables(image.attrs)),
            "mounts": [*self._workspace_mounts(replica, rendezvous), *_mounts(grant)],
            "working_dir": folder,
            "labels": self._labels(replica, rendezvous)
            | {f"{LABEL}image": image.digest, f"{LABEL}wrapper": str(len(grant.wrapper))},
            **self.injection.options(devices),
            "hostname": container_name(replica.job, replica.attempt, replica.rank),
            "extra_hosts": self._names(replica),
            # The group too: for a uid that the image does not know, it would be root's.
            "user": f"{user}:{user}",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": self.policy.pids,
            "read_only": self.policy.read_only_images,
            "mem_limit": f"{replica.memory_mib}m",
            "memswap_limit": f"{replica.memory_mib}m",
            "nano_cpus": max(MIN_NANO_CPUS, replica.cpu_milli * 1_000_000),
            "cpuset_cpus": grant.cpus,
            "cpuset_mems": grant.memory_nodes,
            "oom_score_adj": OOM_SCORE,
            "shm_size": f"{replica.shm_mib}m",
            "devices": [f"{node}:{node}:rw" for node in grant.devices],
            "ulimits": _limits(grant),
            "init": True,
            "log_config": LogConfig(type="json-file", config=LOG_ROTATION),
            "restart_policy": {"Name": "no"},
        }

    def environment(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Also identifies a container that was created for other devices or another rendezvous."""
        env = replica_environment(replica, devices, rendezvous, IN_CONTAINER)
        return env | self.injection.environment(devices) | self.grant(replica, devices).env

    def make_workspace(self, replica: DesiredReplica) -> ReplicaFolders:
        """What the options mount. Raises RuntimeFailure."""
        user, home = self.policy.user_of(replica), home_in_container(replica)
        return make_workspace(self.workspaces, replica, user, home)

    def write_launcher_files(self, replica: DesiredReplica, rendezvous: Rendezvous) -> None:
        """Raises RuntimeFailure."""
        texts = launch_files(replica, rendezvous, IN_CONTAINER)
        write_launcher_files(self.workspaces, replica, texts)

    def _workspace_mounts(self, replica: DesiredReplica, meeting: Rendezvous) -> list[Mount]:
        """PyTorch and Triton compile into TMPDIR and load from there, so nothing is noexec."""
        ours = self.workspaces.folders(replica.id)
        passwd, group = self.workspaces.account_files(replica.id)
        read_only = [(passwd, "/etc/passwd"), (group, "/etc/group")]
        if has_code(replica):
            read_only.append((ours.code, str(IN_CONTAINER.code)))
        if launch_files(replica, meeting, IN_CONTAINER):
            read_only.append((ours.launcher, str(IN_CONTAINER.launcher)))
        pairs = [*zip(ours.writable, IN_CONTAINER.writable, strict=True)]
        pairs.append((ours.temporary, VAR_TMP))
        return [Mount(str(target), str(source), type="bind") for source, target in pairs] + [
            Mount(target, str(source), type="bind", read_only=True) for source, target in read_only
        ]

    def _names(self, replica: DesiredReplica) -> dict[str, str]:
        """Those that resolve in the container, beside what the engine knows. On the host's network
        it would not know even the container's own, and gloo would fall back on loopback."""
        if network := replica.gang_network:
            return {peer.hostname: peer.address for peer in network.peers}
        if self.policy.network == HOST and self.address:
            return {container_name(replica.job, replica.attempt, replica.rank): self.address}
        return {}

    def _host_address(self) -> str:
        """Of this node for other nodes; without it, its name, which they may resolve."""
        return self.address or os.uname().nodename

    def _labels(self, replica: DesiredReplica, meeting: Rendezvous) -> dict[str, str]:
        name = container_name(replica.job, replica.attempt, replica.rank)
        values = {
            "node": self.node,
            "replica": replica.id,
            "job": replica.job,
            "attempt": replica.attempt,
            "rank": replica.rank,
            "fence": replica.fence,
            "address": self._host_address() if self.policy.network == HOST else name,
            "port": meeting.port,
        }
        # Always, as the image may have such a label of its own.
        values["gang"] = replica.gang_network.id if replica.gang_network else ""
        return {f"{LABEL}{key}": str(value) for key, value in values.items()}


def _mounts(grant: Grant) -> list[Mount]:
    """If one is mounted at /dev/shm, `shm_size` has no effect."""
    mounts = [Mount(target, source, type="bind") for source, target in grant.mounts]
    mounts += [
        Mount(target, source, type="bind", read_only=True)
        for source, target in grant.read_only_mounts
    ]
    return mounts + [_volume(each) for each in grant.volumes]


def _limits(grant: Grant) -> list[Ulimit]:
    """Its user is not root, so it locks memory by this limit; the capability would have no effect.
    The container's limit of memory holds for what is locked, too."""
    limits = [
        Ulimit(name="nofile", soft=_open_files(), hard=_open_files()),
        Ulimit(name="core", soft=0, hard=0),
    ]
    return [*limits, Ulimit(name="memlock", soft=-1, hard=-1)] if grant.locks_memory else limits


def _volume(volume: VolumeMount) -> Mount:
    """Unlike `binds`, a mount creates no folder on the host where there is none. A driver's volume
    starts empty, whatever the image has there."""
    if driver := volume.driver:
        return Mount(
            volume.target,
            volume.source,
            read_only=volume.read_only,
            no_copy=True,
            labels=driver.labels,
            driver_config=DriverConfig(driver.name, driver.options),
        )
    mount = Mount(volume.target, volume.source, type="bind", read_only=volume.read_only)
    mount["BindOptions"] = {"NonRecursive": True}
    return mount


def _open_files() -> int:
    """At most our own limit: an engine that may not raise it would refuse to start."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
