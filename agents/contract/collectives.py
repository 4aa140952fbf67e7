"""Which collective library can join a gang.

NCCL needs a GPU of its own for each rank. MIG has no peer-to-peer between instances, and NCCL
itself refuses two ranks on one GPU, whether on two instances or two MPS shares ("Duplicate GPU
detected", NCCL's init.cc; NVIDIA MIG User Guide, "Application Considerations"). What that means for
a request is in `agents/combinations/`.
"""

from collections.abc import Iterable

from agents.contract.documents import CollectiveBackend, SliceKind


def can_join_by_nccl(kinds: Iterable[SliceKind], ranks: int) -> bool:
    """Whether NCCL can connect `ranks` processes on devices of these kinds."""
    return ranks < 2 or all(kind is SliceKind.GPU for kind in kinds)


def resolved_backend(
    backend: CollectiveBackend, kinds: Iterable[SliceKind], ranks: int
) -> CollectiveBackend:
    """The backend that `auto` stands for in this gang; any other backend is returned unchanged."""
    if backend is not CollectiveBackend.AUTO:
        return backend
    return CollectiveBackend.NCCL if can_join_by_nccl(kinds, ranks) else CollectiveBackend.GLOO
