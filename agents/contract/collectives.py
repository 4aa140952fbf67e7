"""Which library carries a gang's messages, and why NCCL cannot do it between slices.

NCCL needs a GPU of its own for each rank: MIG has no peer-to-peer between instances, and two ranks
on one GPU (two instances of it, or two MPS shares) are refused by NCCL itself ("Duplicate GPU
detected", NCCL's init.cc; NVIDIA MIG user guide, "Application Considerations").
"""

from collections.abc import Iterable

from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.phrase import Phrase


def backend_refusal(backend: CollectiveBackend, kinds: Iterable[SliceKind], ranks: int) -> str:
    """Why a gang of `ranks` processes on devices of these kinds cannot use `backend`, or ""."""
    small = sorted({kind for kind in kinds if kind is not SliceKind.GPU})
    if backend is not CollectiveBackend.NCCL or ranks < 2 or not small:
        return ""
    what = Phrase("MIG slices" if small[0] is SliceKind.MIG else "MPS shares")
    return Phrase(
        "NCCL cannot join %(n)s processes on %(what)s: choose backend gloo, or whole GPUs",
        n=ranks,
        what=what,
    )


def too_many_processes(gpus: int, processes: int) -> str:
    """Why a replica with `gpus` whole GPUs cannot start so many processes, or "". Without a whole
    GPU there is nothing to say: on a slice or a share gloo joins several processes."""
    fits = not 0 < gpus < processes
    return "" if fits else Phrase("%(n)s processes need %(n)s GPUs", n=processes)


def resolved_backend(
    backend: CollectiveBackend, kinds: Iterable[SliceKind], ranks: int
) -> CollectiveBackend:
    """What `auto` means for this gang; any other word stands."""
    if backend is not CollectiveBackend.AUTO:
        return backend
    whole = all(kind is SliceKind.GPU for kind in kinds)
    return CollectiveBackend.NCCL if whole or ranks < 2 else CollectiveBackend.GLOO
