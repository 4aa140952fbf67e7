"""Which collective library a gang can use.

NCCL needs a GPU of its own for each rank. MIG has no peer-to-peer between instances, and NCCL
itself refuses two ranks on one GPU, whether on two instances or two MPS shares ("Duplicate GPU
detected", NCCL's init.cc; NVIDIA MIG User Guide, "Application Considerations").
"""

from collections.abc import Iterable

from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.message import NO_MESSAGE, Message


def backend_refusal(backend: CollectiveBackend, kinds: Iterable[SliceKind], ranks: int) -> Message:
    """Why a gang of `ranks` processes on devices of these kinds cannot use `backend`; empty if it
    can."""
    small = sorted({kind for kind in kinds if kind is not SliceKind.GPU})
    if backend is not CollectiveBackend.NCCL or ranks < 2 or not small:
        return NO_MESSAGE
    what = Message("MIG slices" if small[0] is SliceKind.MIG else "MPS shares")
    return Message(
        "NCCL cannot connect %(n)s processes on %(what)s: choose the gloo backend, or whole GPUs",
        n=ranks,
        what=what,
    )


def too_many_processes(gpus: int, processes: int) -> Message:
    """Why a replica with `gpus` whole GPUs cannot start `processes` processes; empty if it can.

    Never refuses a replica without a whole GPU: gloo connects several processes on one slice."""
    fits = not 0 < gpus < processes
    return NO_MESSAGE if fits else Message("%(n)s processes need %(n)s GPUs", n=processes)


def resolved_backend(
    backend: CollectiveBackend, kinds: Iterable[SliceKind], ranks: int
) -> CollectiveBackend:
    """The backend that `auto` stands for in this gang; any other backend is returned unchanged."""
    if backend is not CollectiveBackend.AUTO:
        return backend
    whole = all(kind is SliceKind.GPU for kind in kinds)
    return CollectiveBackend.NCCL if whole or ranks < 2 else CollectiveBackend.GLOO
