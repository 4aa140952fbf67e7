"""Of what a container is made: typed values of a replica and the node owner's policy become the
engine's options. Users never reach a HostConfig."""

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docker.types import LogConfig, Mount, Ulimit

from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplica, Rendezvous
from agents.runtime.base import container_name, free_port
from agents.runtime.docker_network import HOST
from agents.runtime.grants import Grant, GrantProvider
from agents.runtime.injection import device_requests
from agents.runtime.launch import launch_command, replica_environment

# Labels tell which containers and networks are ours, and of which node.
LABEL = "tessera."
PORT = 29_500
OUTPUT = "/output"
# Two files: a follower still finds what stood in the one before.
LOG_ROTATION = {"max-size": "64m", "max-file": "2"}
# Programs compile into /tmp and load from there (PyTorch, Triton); Docker's default is noexec.
TMPFS = "exec,nosuid,nodev,mode=1777"
# The least that the engine takes, in billionths of a CPU.
MIN_NANO_CPUS = 10_000_000
OPEN_FILES = 65_535


@dataclass(frozen=True, slots=True)
class ContainerRecipe:
    """How containers are made on one node. `grant`: what a replica is given beside its devices."""

    node: str
    policy: NodePolicy
    grant: GrantProvider

    def expected_rendezvous(self, replica: DesiredReplica) -> Rendezvous:
        """Where this gang will meet, if rank 0 is on this engine."""
        if self.policy.network == HOST:
            return Rendezvous(address=os.uname().nodename, port=free_port(""))
        names = [container_name(replica.job, replica.attempt, i) for i in range(replica.world)]
        return Rendezvous(address=names[0], port=PORT, peers=tuple(names))

    def options(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> dict[str, Any]:
        """The hardened container, but for its network. No field here can a user set freely."""
        return {
            "image": replica.image,
            "command": launch_command(replica),
            "entrypoint": [],
            "environment": self.environment(replica, devices, rendezvous),
            "mounts": _mounts(self.grant(replica, devices)),
            "labels": self._labels(replica, rendezvous),
            "device_requests": device_requests(self.policy.device_injection, devices),
            "hostname": container_name(replica.job, replica.attempt, replica.rank),
            # The group too: a user that the image does not know would be of root's.
            "user": f"{self.policy.user}:{self.policy.user}",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": self.policy.pids,
            "mem_limit": f"{replica.memory_mib}m",
            "memswap_limit": f"{replica.memory_mib}m",
            "nano_cpus": max(MIN_NANO_CPUS, replica.cpu_milli * 1_000_000),
            "shm_size": f"{replica.shm_mib}m",
            "tmpfs": {"/tmp": TMPFS, OUTPUT: TMPFS},  # noqa: S108
            "ulimits": [
                Ulimit(name="nofile", soft=_open_files(), hard=_open_files()),
                Ulimit(name="core", soft=0, hard=0),
            ],
            "init": True,
            "log_config": LogConfig(type="json-file", config=LOG_ROTATION),
            "restart_policy": {"Name": "no"},
        }

    def environment(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> dict[str, str]:
        """What tells a container made for other devices, or another meeting, from the right one."""
        env = replica_environment(replica, devices, rendezvous, OUTPUT)
        return env | self.grant(replica, devices).env

    def _labels(self, replica: DesiredReplica, meeting: Rendezvous) -> dict[str, str]:
        name = container_name(replica.job, replica.attempt, replica.rank)
        values = {
            "node": self.node,
            "replica": replica.id,
            "job": replica.job,
            "attempt": replica.attempt,
            "rank": replica.rank,
            "fence": replica.fence,
            "address": os.uname().nodename if self.policy.network == HOST else name,
            "port": meeting.port,
        }
        return {f"{LABEL}{key}": str(value) for key, value in values.items()}


def _mounts(grant: Grant) -> list[Mount]:
    """Where the daemon's shared memory stands at /dev/shm, `shm_size` counts for nothing."""
    return [Mount(target, source, type="bind") for source, target in grant.mounts]


def _open_files() -> int:
    """Not above our own limit: an engine without the power to raise it would start nothing."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
