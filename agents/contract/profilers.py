"""What may profile a job: the words of its request, and what the node puts into its replicas."""

from enum import StrEnum


class Profiler(StrEnum):
    """PyTorch's records some steps of rank 0 (`agents/profiler/`)."""

    NONE = "none"
    PYTORCH = "pytorch"
