"""The MIG instances of each GPU as last read, and which GPU is read next."""

from collections.abc import Mapping

from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml


class InstanceReadings:
    """A listing of one GPU takes dozens of driver calls, so a refresh lists only the GPUs that have
    changed, and of the others one in turn: so a change by another tool is seen too, within as many
    refreshes as there are GPUs in MIG mode.

    A GPU that cannot be listed keeps its last instances, with the driver's reason in `failures`."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        # In the order of their last listing, the oldest first.
        self._found: dict[str, list[InstanceFacts]] = {}
        self._failures: dict[str, str] = {}
        # GPUs that must be listed at the next refresh, such as one that was lost: a reset deletes
        # its instances.
        self._due: set[str] = set()

    @property
    def failures(self) -> Mapping[str, str]:
        """Why the last listing of a GPU failed, by UUID."""
        return self._failures

    def of(self, gpu_uuid: str) -> list[InstanceFacts]:
        return self._found.get(gpu_uuid, [])

    def refresh(self, responding: list[GpuFacts], absent: frozenset[str]) -> None:
        """Lists what is due. `absent`: GPUs that do not respond; they keep their instances."""
        in_mig = {gpu.uuid for gpu in responding if gpu.mig_current}
        for uuid in self._found.keys() - in_mig - absent:
            self._forget(uuid)
        self._due |= absent | self._failures.keys() | (in_mig - self._found.keys())
        listed = [uuid for uuid in self._found if uuid in in_mig - self._due]
        for uuid in [*sorted(self._due & in_mig), *listed[:1]]:
            self._list(uuid)

    def read(self, gpu: GpuFacts) -> None:
        """Lists one GPU now, after a change of it."""
        if gpu.mig_current:
            self._list(gpu.uuid)
        else:
            self._forget(gpu.uuid)

    def _list(self, uuid: str) -> None:
        """While another thread changes the GPU it stays as it was, and due."""
        try:
            found = self._nvml.instances_unless_changing(uuid)
        except NvmlFailure as failure:
            self._found.setdefault(uuid, [])
            self._failures[uuid] = failure.reason
            return
        if found is None:
            self._due.add(uuid)
            return
        # At the end of the order.
        self._found.pop(uuid, None)
        self._found[uuid] = found
        self._failures.pop(uuid, None)
        self._due.discard(uuid)

    def _forget(self, uuid: str) -> None:
        self._due.discard(uuid)
        self._found.pop(uuid, None)
        self._failures.pop(uuid, None)
