"""MPS shares of one GPU: all of one project, and together never more than there is.

MPS does not isolate memory errors: a client that dies badly may take its neighbours along. So no
two projects share a GPU, and a share is given only to who allowed it (`Isolation.ANY`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agents.contract.documents import SliceKind
from agents.contract.shares import too_few_threads, too_little_memory
from scheduler.core.model.decisions import DevicePlacement
from scheduler.core.model.snapshot import SliceView, WaitingJob


@dataclass(frozen=True, slots=True)
class ShareRoom:
    """What a GPU still has for shares: percent of the SMs, MiB, and clients of its MPS server."""

    threads: int
    memory_mib: int
    clients: int

    def max_shares(self, threads: int, memory_mib: int, clients: int) -> int:
        """How many shares of this size fit; none where a process would get less than a client's
        least."""
        if too_few_threads(threads, clients) or too_little_memory(memory_mib, clients):
            return 0
        by_memory = self.memory_mib // max(1, memory_mib)
        return max(0, min(self.threads // threads, by_memory, self.clients // clients))


def share_room(
    slices: Iterable[SliceView], project: str, memory_mib: int, clients: int
) -> ShareRoom | None:
    """What is left beside `slices` for a share of `project` on a GPU with this memory, whose MPS
    server takes `clients`; None where something else than its own shares is there."""
    threads = 100
    for seen in slices:
        if seen.kind is not SliceKind.MPS or seen.project != project:
            return None
        threads -= seen.threads
        memory_mib -= seen.memory_mib
        clients -= seen.clients
    return ShareRoom(threads, memory_mib, clients)


def as_share(made: SliceView, place: DevicePlacement, job: WaitingJob) -> SliceView:
    """`made` as the share that `place` gives to a replica of `job`."""
    return replace(
        made,
        threads=place.threads,
        memory_mib=place.memory_mib,
        clients=job.processes,
        project=job.project,
    )
