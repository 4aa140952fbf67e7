"""The roots that this node offers now, and the volumes behind them."""

from collections.abc import Sequence
from pathlib import Path

from agents.admission.volume_roots import DriverRoot, VolumeRoot
from agents.contract.volumes import DesiredVolume, OfferedRoot
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_volumes import DockerVolumes
from agents.runtime.grants import VolumeMount
from agents.volumes.driver_roots import DriverWatch
from agents.volumes.folders import FolderRefused
from agents.volumes.root_watch import FolderWatch
from agents.volumes.sizes import VolumeSizes


class VolumeRoots:
    """The roots of the policy, each with why it is not offered."""

    def __init__(
        self, roots: Sequence[VolumeRoot | DriverRoot], sizes_file: Path | None = None
    ) -> None:
        self._drivers = [root for root in roots if isinstance(root, DriverRoot)]
        self._watches: dict[str, FolderWatch | DriverWatch] = {
            root.name: FolderWatch(root) for root in roots if isinstance(root, VolumeRoot)
        }
        self.use_engine(None)
        self.sizes = VolumeSizes(sizes_file)

    def use_engine(self, engine: DockerVolumes | None) -> None:
        """That of this node's containers; None if it has none."""
        self._watches |= {root.name: DriverWatch(root, engine) for root in self._drivers}

    def offered(self) -> tuple[OfferedRoot, ...]:
        """Those that answer. Looks again where that is due, without waiting."""
        if not self._watches:
            return ()
        self.sizes.measure_when_due()
        found = [(watch, watch.current()) for watch in self._watches.values()]
        return tuple(
            OfferedRoot(
                name=watch.root.name,
                read_only=watch.root.read_only,
                free_mib=space[0],
                total_mib=space[1],
                sizes=self.sizes.of(watch.root.name),
                driver=watch.root.driver if isinstance(watch, DriverWatch) else "",
            )
            for watch, space in found
            if space is not None
        )

    def problems(self) -> tuple[str, ...]:
        """Sentences about roots that are not offered now."""
        return tuple(
            f"Volumes below {name} cannot be used: {watch.problem}"
            for name, watch in self._watches.items()
            if watch.problem
        )

    def folder_watch(self, root: str) -> FolderWatch | None:
        """Of a root that is a folder of this machine and that the policy offers."""
        watch = self._watches.get(root)
        return watch if isinstance(watch, FolderWatch) else None

    def mount(self, volume: DesiredVolume) -> VolumeMount:
        """As a replica gets it. Raises RuntimeFailure."""
        watch = self._watches.get(volume.root)
        if watch is None:
            raise _failure(volume, f"this node's policy offers no root {volume.root}")
        try:
            if isinstance(watch, DriverWatch):
                return watch.mount(volume)
            path = watch.folder(volume.subpath, read_only=volume.read_only)
        except FolderRefused as refused:
            raise _failure(volume, str(refused)) from refused
        self.sizes.use(watch.root.name, watch.root.path, volume.subpath)
        return VolumeMount(path, volume.path, volume.read_only)


def _failure(volume: DesiredVolume, why: str) -> RuntimeFailure:
    return RuntimeFailure("volume", f"volume {volume.name}: {why}")
