"""What one session keeps of each GPU: its handle, its constants, and the lock of its changes.

To find a GPU by UUID, NVML visits every GPU, which takes seconds when several threads do it at once
(k8s-dra-driver). Profiles and placements are constants of a board. Both are read once and kept
until the GPU's mode changes, it is reset, or a call for it fails.
"""

import threading
from dataclasses import dataclass, field

import pynvml

from agents.facts.gpus import GpuFacts
from agents.nvml.profile_constants import ComputeProfile, InstanceProfile


@dataclass(slots=True)
class KnownGpu:
    """A GPU of this session. What is None or missing was not read yet."""

    handle: object
    facts: GpuFacts | None = None
    profiles: tuple[InstanceProfile, ...] | None = None
    # Compute profiles by the id of the profile of their GPU instance.
    compute_profiles: dict[int, tuple[ComputeProfile, ...]] = field(default_factory=dict)


class KnownGpus:
    """By UUID. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._known: dict[str, KnownGpu] = {}
        self._by_index: dict[int, str] = {}
        # These stay: a change that is in progress outlives what is known.
        self._locks: dict[str, threading.RLock] = {}

    def lock(self, uuid: str) -> threading.RLock:
        """Held during each change of the GPU and each listing of its instances."""
        with self._mutex:
            return self._locks.setdefault(uuid, threading.RLock())

    def uuids(self) -> list[str]:
        with self._mutex:
            return list(self._locks)

    def gpu(self, uuid: str) -> KnownGpu:
        """Raises pynvml.NVMLError. MIG devices are found too, but not kept: they come and go."""
        with self._mutex:
            known = self._known.get(uuid)
        if known is None:
            known = KnownGpu(pynvml.nvmlDeviceGetHandleByUUID(uuid))
            if not uuid.startswith("MIG"):
                self._keep(uuid, known)
        return known

    def handle(self, uuid: str) -> object:
        return self.gpu(uuid).handle

    def find(self, uuid: str) -> KnownGpu | None:
        """Without asking the driver."""
        with self._mutex:
            return self._known.get(uuid)

    def at(self, index: int) -> KnownGpu | None:
        """Without asking the driver."""
        with self._mutex:
            return self._known.get(self._by_index.get(index, ""))

    def keep(self, facts: GpuFacts, handle: object) -> KnownGpu:
        known = KnownGpu(handle, facts)
        self._keep(facts.uuid, known)
        with self._mutex:
            self._by_index[facts.index] = facts.uuid
        return known

    def forget(self, uuid: str) -> None:
        with self._mutex:
            self._known.pop(uuid, None)

    def forget_all(self) -> None:
        with self._mutex:
            self._known.clear()
            self._by_index.clear()

    def _keep(self, uuid: str, known: KnownGpu) -> None:
        with self._mutex:
            self._known[uuid] = known
            self._locks.setdefault(uuid, threading.RLock())
