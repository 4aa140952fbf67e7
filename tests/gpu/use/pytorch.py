"""Whether a row can use PyTorch here."""

import importlib.util
import sys

from tests.gpu.use.record import NotPossible, Record


def require_torch(record: Record) -> None:
    """Raises NotPossible on a simulated node, and without PyTorch in this Python."""
    if record.simulated:
        raise NotPossible("a simulated node runs no CUDA program")
    if importlib.util.find_spec("torch") is None:
        raise NotPossible(f"{sys.executable} has no torch")
