"""MPS shares of one GPU: all of one project, and together never more than the GPU has.

MPS does not isolate memory errors: a crashing client may take its neighbours down. So projects
never share a GPU, and only jobs that allow it (`Isolation.ANY`) get a share.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.contract.documents import SliceKind
from agents.contract.shares import too_few_threads, too_little_memory
from scheduler.core.model.snapshot import SliceView


@dataclass(frozen=True, slots=True)
class ShareRoom:
    """Room for shares on a GPU: percent of the SMs, MiB, and clients of its MPS server."""

    threads: int
    memory_mib: int
    clients: int

    def max_shares(self, threads: int, memory_mib: int, clients: int) -> int:
        """How many shares of this size fit; 0 if a process would get less than the minimum of a
        client."""
        if too_few_threads(threads, clients) or too_little_memory(memory_mib, clients):
            return 0
        by_memory = self.memory_mib // max(1, memory_mib)
        return max(0, min(self.threads // threads, by_memory, self.clients // clients))


def share_room(
    slices: Iterable[SliceView], project: str, memory_mib: int, clients: int
) -> ShareRoom | None:
    """Room for a share of `project` on a GPU with these `slices` and this memory, whose MPS server
    serves `clients`; None if anything but the project's own shares is on it."""
    threads = 100
    for view in slices:
        if view.kind is not SliceKind.MPS or view.project != project:
            return None
        threads -= view.threads
        memory_mib -= view.memory_mib
        clients -= view.clients
    return ShareRoom(threads, memory_mib, clients)
