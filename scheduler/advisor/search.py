"""Ways to divide the training of a model over GPUs: those that fit, the fastest first.

Every combination of tensor, pipeline and context parallelism, micro-batch and recompute is tried
with the distributed optimizer. What is slower than the best says which part of its step is.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any

from scheduler.advisor.errors import UnknownInput
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import GPUS_PER_NODE, StepParts, step_parts
from scheduler.advisor.training_memory import training_bytes
from scheduler.advisor.transformer import Recompute, Shape

# CUDA's context, NCCL's buffers, fragments of the allocator.
RESERVE_BYTES = 5 * 2**30
MOST_GPUS = 65_536
MOST_CONTEXT, MOST_MICRO_BATCH = 16, 8
PARTS = {
    "compute": "unequal stages",
    "recompute": "activations computed again",
    "messages": "messages of tensor and context parallelism",
    "bubble": "the pipeline's bubble",
    "gradients": "the exchange of gradients",
    "optimizer": "the optimizer's step",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A division that fits, with what it needs."""

    parallelism: Parallelism
    memory_bytes: float
    parts: StepParts

    def as_json(self, shape: Shape, gpu: GpuFigures, best: StepParts) -> dict[str, Any]:
        p, seconds = self.parallelism, self.parts.seconds
        flops = shape.model_flops(p.global_batch)
        return {
            "tp": p.tensor_parallel,
            "pp": p.pipeline_parallel,
            "cp": p.context_parallel,
            "dp": p.data_parallel,
            "micro_batch": p.micro_batch,
            "recompute": p.recompute.value,
            "memory_gib": round(self.memory_bytes / 2**30, 2),
            "step_s": round(seconds, 4),
            "tokens_per_s": round(p.global_batch * shape.sequence / seconds),
            "mfu_percent": round(100 * flops / seconds / p.gpus / gpu.peak_flops, 1),
            "parts_s": {name: round(value, 4) for name, value in asdict(self.parts).items()},
            "slower_part": slower_part(self.parts, best),
        }


def slower_part(parts: StepParts, best: StepParts) -> str:
    """The part that costs most beyond the best division's; empty for the best one itself."""
    names = [field.name for field in fields(parts)]
    extra = {name: getattr(parts, name) - getattr(best, name) for name in names}
    worst = max(extra, key=lambda name: extra[name])
    return PARTS[worst] if parts.seconds > best.seconds else ""


def search(shape: Shape, gpu: GpuFigures, gpus: int, global_batch: int) -> list[Candidate]:
    """All that fit, the fastest first; of equal ones the smaller memory."""
    if not 1 <= gpus <= MOST_GPUS:
        raise UnknownInput(f"the number of GPUs must be between 1 and {MOST_GPUS:,}")
    if global_batch < 1:
        raise UnknownInput("the global batch must be at least 1 sequence")
    found = []
    for parallelism in _divisions(shape, gpus, global_batch):
        memory = RESERVE_BYTES + training_bytes(
            shape, parallelism, zero_stage=1, flash_attention=True
        )
        if memory <= gpu.memory_bytes:
            found.append(Candidate(parallelism, memory, step_parts(shape, parallelism, gpu)))
    return sorted(found, key=lambda one: (one.parts.seconds, one.memory_bytes))


def _divisions(shape: Shape, gpus: int, global_batch: int) -> Iterator[Parallelism]:
    """Those whose sizes divide."""
    sizes = product(
        _powers_of_two(min(GPUS_PER_NODE, gpus)),
        _pipeline_sizes(shape.layers, gpus),
        _powers_of_two(MOST_CONTEXT),
        _powers_of_two(MOST_MICRO_BATCH),
    )
    for t, p, c, micro_batch in sizes:
        replicas, rest = divmod(gpus, t * p * c)
        if rest or shape.heads % t or shape.sequence % c or global_batch % (replicas * micro_batch):
            continue
        for recompute in (Recompute.NONE, Recompute.FULL):
            yield Parallelism(
                gpus=gpus,
                tensor_parallel=t,
                pipeline_parallel=p,
                context_parallel=c,
                global_batch=global_batch,
                micro_batch=micro_batch,
                recompute=recompute,
                sequence_parallel=True,
            )


def _powers_of_two(most: int) -> list[int]:
    return [2**n for n in range(most.bit_length()) if 2**n <= most]


def _pipeline_sizes(layers: int, most: int) -> list[int]:
    """Powers of two, whose stages may be unequal, and the divisors of the layers."""
    top = min(layers, most, 128)
    return sorted({*_powers_of_two(top), *(n for n in range(1, top + 1) if layers % n == 0)})
