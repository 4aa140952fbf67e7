"""The bubble of a pipeline. Sources: GPipe (arXiv 1811.06965); SC21 (arXiv 2104.04473), 2.2."""

from scheduler.advisor.errors import AdvisorError


def _checked(stages: int, micro_batches: int, virtual_stages: int) -> None:
    if min(stages, micro_batches, virtual_stages) < 1:
        raise AdvisorError("stages, micro-batches and virtual stages are at least 1", "p")


def bubble_over_ideal(stages: int, micro_batches: int, virtual_stages: int = 1) -> float:
    """Idle time over the time without a bubble: (p-1)/(v m). It can be more than 1."""
    _checked(stages, micro_batches, virtual_stages)
    return (stages - 1) / (virtual_stages * micro_batches)


def bubble_over_total(stages: int, micro_batches: int, virtual_stages: int = 1) -> float:
    """Idle time over all time, which is what a GPU's utilisation lacks: (p-1)/(v m + p - 1)."""
    _checked(stages, micro_batches, virtual_stages)
    return (stages - 1) / (virtual_stages * micro_batches + stages - 1)
