"""What a replica with volumes gets: mounts in a container, and their paths in its environment."""

from collections.abc import Sequence
from dataclasses import replace

from agents.contract.documents import DesiredReplica, RuntimeKind
from agents.contract.volumes import volume_variable
from agents.runtime.grants import Grant, GrantProvider, VolumeMount
from agents.volumes.roots import VolumeRoots


def with_volumes(inner: GrantProvider, roots: VolumeRoots, runtime: RuntimeKind) -> GrantProvider:
    """What `inner` grants, and the replica's volumes. The provider raises RuntimeFailure.

    A plain process has no mounts: it finds a volume at the path of this machine that its variable
    names, and nothing but that folder's own permissions keeps it from writing."""

    def grant(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
        granted = inner(replica, devices)
        if not replica.volumes:
            return granted
        mounts = tuple(
            VolumeMount(roots.folder(volume), volume.path, volume.read_only)
            for volume in replica.volumes
        )
        is_process = runtime is RuntimeKind.PROCESS
        places = {
            volume_variable(volume.name): mount.source if is_process else mount.target
            for volume, mount in zip(replica.volumes, mounts, strict=True)
        }
        return replace(granted, env=granted.env | places, volumes=mounts)

    return grant
