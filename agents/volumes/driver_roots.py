"""Volumes that the engine keeps by a driver, behind a root of the policy.

The policy fixes the driver and its options, the portal says which volume, and the name that the
engine knows it by follows from both. The engine makes one that is not there yet.
"""

from collections.abc import Collection, Iterable

from agents.admission.volume_roots import DriverRoot
from agents.contract.volumes import DesiredVolume, driver_subpath_problem
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_volumes import DockerVolumes
from agents.runtime.grants import VolumeDriver, VolumeMount
from agents.volumes.folders import FolderRefused
from agents.volumes.root_watch import RootWatch

# Beside it, only what was made for this root and this volume is taken.
LABEL = "tessera.volume"


class DriverWatch(RootWatch):
    """What is known of the driver of one root."""

    def __init__(self, root: DriverRoot, engine: DockerVolumes | None) -> None:
        self.root = root
        self._engine = engine
        super().__init__(f"the driver {root.driver}")

    def mount(self, volume: DesiredVolume) -> VolumeMount:
        """Raises FolderRefused."""
        if problem := driver_subpath_problem(volume.subpath):
            raise FolderRefused(problem.text)
        engine, root, name = self._connected(), self.root, volume_name(self.root, volume.subpath)
        label = {LABEL: f"{root.name}/{volume.subpath}"}
        options = {key: text.replace("{volume}", volume.subpath) for key, text in root.options}
        try:
            there = engine.find(name)
        except RuntimeFailure as failure:
            raise FolderRefused(failure.sentence) from failure
        if there and there.labels.get(LABEL) != label[LABEL]:
            raise FolderRefused(f"the engine has another volume {name}, which is not of Tessera")
        if there and (there.driver, dict(there.options)) != (root.driver, options):
            raise FolderRefused(
                f"the engine has {name} with another driver or other options than the policy says: "
                f"docker volume rm {name} removes it with its files, and the next job makes it anew"
            )
        driver = VolumeDriver(root.driver, options, label)
        return VolumeMount(name, volume.path, volume.read_only, driver)

    def _read_space(self) -> tuple[int, int]:
        """None is known: what a driver keeps may lie anywhere."""
        try:
            drivers = self._connected().drivers()
        except RuntimeFailure as failure:
            raise FolderRefused(failure.sentence) from failure
        if self.root.driver not in drivers:
            raise FolderRefused(_absence(self.root))
        return 0, 0

    def _connected(self) -> DockerVolumes:
        if self._engine is None:
            raise FolderRefused("this node runs no containers")
        return self._engine


def missing_drivers(roots: Iterable[DriverRoot], drivers: Collection[str]) -> list[str]:
    """Sentences about roots whose driver the engine has not."""
    return [
        f"Volumes below {root.name} cannot be used: {_absence(root)}"
        for root in roots
        if root.driver not in drivers
    ]


def _absence(root: DriverRoot) -> str:
    return f"the Docker Engine has no volume driver {root.driver}"


def volume_name(root: DriverRoot, subpath: str) -> str:
    """As the engine knows it. The name of such a root has no '_': no two volumes share a name."""
    return f"tessera_{root.name}_{subpath}"
