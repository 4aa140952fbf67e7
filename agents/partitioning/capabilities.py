"""The device nodes of MIG slices, without which a container sees only the GPU around them.

A slice has a capability for its GPU instance and one for its compute instance; each has a node
/dev/nvidia-caps/nvidia-capN, of which N stands in the driver's file in /proc (NVIDIA MIG User
Guide, "Device nodes and capabilities"). The driver does not make the nodes: the first program that
uses NVML as root does, so `nvidia-smi -L` runs after a carve. A toolkit that does not find them
passes the slice without them, and reports no error (k8s-dra-driver-gpu #787, mig-parted #82).
"""

import re
from collections.abc import Iterable, Mapping

from agents.facts.gpus import InstanceFacts
from agents.facts.partitions import PartitionProblem
from agents.host.files import HostFiles
from agents.host.programs import program_failure
from agents.nvml.errors import NvmlFailure
from agents.nvml.processes import minor_number

PROC, NODES = "/proc/driver/nvidia/capabilities", "/dev/nvidia-caps"
MISSING = "capability_missing"
LIST_SECONDS = 60.0
_MINOR = re.compile(r"^DeviceFileMinor: (\d+)$", re.MULTILINE)


class CapabilityNodes:
    """The nodes of the instances of a node with a real driver. `nvidia_smi`: a program's path."""

    def __init__(self, files: HostFiles, nvidia_smi: str) -> None:
        self.files = files
        self.nvidia_smi = nvidia_smi
        # By the UUID of each slice whose nodes are all there.
        self._paths: dict[str, frozenset[str]] = {}
        self._made_for: frozenset[InstanceFacts] | None = None

    def is_stale(self, instances: Iterable[InstanceFacts]) -> bool:
        """Whether they were not all found for exactly these instances."""
        return self._made_for != frozenset(i for i in instances if i.uuid)

    def has_nodes(self, uuid: str) -> bool:
        return uuid in self._paths

    @property
    def paths(self) -> Mapping[str, frozenset[str]]:
        """What a container with a slice must get, by the slice's UUID."""
        return self._paths

    def create(self, instances: Iterable[InstanceFacts]) -> PartitionProblem | None:
        """Make the nodes that are missing. Returns which still are, or None."""
        slices = [instance for instance in instances if instance.uuid]
        missing, why = self._find(slices), ""
        if missing:
            why = program_failure(LIST_SECONDS, self.nvidia_smi, "-L")
            missing = self._find(slices)
        self._made_for = None if missing else frozenset(slices)
        if not missing:
            return None
        sentence = f"containers cannot get {'; '.join(missing.values())}"
        cause = why or f"{self.nvidia_smi} -L did not make it"
        return PartitionProblem(next(iter(missing)).gpu_uuid, MISSING, f"{sentence}. {cause}")

    def _find(self, slices: list[InstanceFacts]) -> dict[InstanceFacts, str]:
        """Look for the nodes of all slices. Returns what is missing of which."""
        existing = frozenset(f"{NODES}/{name}" for name in self.files.names(NODES) or ())
        folders = {uuid: _mig_folder(uuid) for uuid in {i.gpu_uuid for i in slices}}
        paths: dict[str, frozenset[str]] = {}
        missing: dict[InstanceFacts, str] = {}
        for instance in slices:
            wanted = self._wanted(folders[instance.gpu_uuid], instance.instance_id)
            lacking = sorted(wanted - existing)
            if wanted and not lacking:
                paths[instance.uuid] = wanted
            else:
                what = ", ".join(lacking) or "no capability in /proc/driver/nvidia"
                missing[instance] = f"{instance.profile} {instance.uuid}: {what}"
        # At once: another thread looks up which slices it may give.
        self._paths = paths
        return missing

    def _wanted(self, mig_folder: str | None, instance_id: int) -> frozenset[str]:
        """Of the GPU instance and of its compute instances; empty if the driver lists not both."""
        if mig_folder is None:
            return frozenset()
        folder = f"{mig_folder}/gi{instance_id}"
        computes = [name for name in self.files.names(folder) or () if name.startswith("ci")]
        files = [f"{folder}/access", *(f"{folder}/{name}/access" for name in computes)]
        minors = [_MINOR.search(self.files.text(file) or "") for file in files]
        if not computes or not all(minors):
            return frozenset()
        return frozenset(f"{NODES}/nvidia-cap{minor[1]}" for minor in minors if minor)


def _mig_folder(gpu_uuid: str) -> str | None:
    """Where the driver lists the capabilities of a GPU; None if it does not answer for the GPU."""
    try:
        return f"{PROC}/gpu{minor_number(gpu_uuid)}/mig"
    except NvmlFailure:
        return None
