"""What a replica gets with its volumes, and with the shared caches of its project: mounts in a
container, and their paths in its environment."""

from collections.abc import Sequence
from dataclasses import replace

from agents.contract.caches import cache_path, cache_variable
from agents.contract.documents import DesiredReplica, RuntimeKind
from agents.contract.volumes import volume_variable
from agents.runtime.grants import Grant, GrantProvider, VolumeMount
from agents.volumes.caches import SharedCaches
from agents.volumes.roots import VolumeRoots


def with_volumes(inner: GrantProvider, roots: VolumeRoots, runtime: RuntimeKind) -> GrantProvider:
    """What `inner` grants, and the replica's volumes. The provider raises RuntimeFailure.

    A plain process has no mounts: it finds a volume at the path of this machine that its variable
    names, and nothing but that folder's own permissions keeps it from writing."""

    def grant(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
        granted = inner(replica, devices)
        if not replica.volumes:
            return granted
        mounts = tuple(roots.mount(volume) for volume in replica.volumes)
        is_process = runtime is RuntimeKind.PROCESS
        places = {
            volume_variable(volume.name): mount.source if is_process else mount.target
            for volume, mount in zip(replica.volumes, mounts, strict=True)
        }
        return replace(granted, env=granted.env | places, volumes=mounts)

    return grant


def with_caches(inner: GrantProvider, caches: SharedCaches, runtime: RuntimeKind) -> GrantProvider:
    """What `inner` grants, and the caches of the replica's project. A variable of its request stays
    as it is."""

    def grant(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
        granted, env = inner(replica, devices), {}
        mounts = []
        for cache, folder in caches.of_project(replica.project):
            path = folder if runtime is RuntimeKind.PROCESS else cache_path(cache.name)
            mounts.append(VolumeMount(folder, path, read_only=True))
            env[cache_variable(cache.name)] = path
            if cache.variable not in replica.env:
                env[cache.variable] = path
        volumes = (*granted.volumes, *mounts)
        return replace(granted, env=env | granted.env, volumes=volumes) if mounts else granted

    return grant
