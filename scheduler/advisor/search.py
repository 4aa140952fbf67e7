"""Ways to divide the training of a model over GPUs: those that fit, the fastest first.

Tried are tensor, pipeline, context, expert and data parallelism, micro-batch, recompute, and ZeRO:
stage 1 is the distributed optimizer, stage 3 FSDP. Stages 2 and 3 go without a pipeline, as in
DeepSpeed (deepspeed/runtime/pipe/engine.py). A division may leave GPUs idle, so that more of them
are never slower. What is slower than the best says which part of its step is.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any

from scheduler.advisor.errors import AdvisorError, checked
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.pipeline import bubble_over_ideal, bubble_over_total
from scheduler.advisor.step_time import CURRENT, GPUS_PER_NODE, StepParts, step_parts
from scheduler.advisor.training_memory import reserve_bytes, training_bytes
from scheduler.advisor.transformer import Recompute, Shape

MOST_GPUS, MOST_BATCH = 65_536, 10**6
MOST_CONTEXT, MOST_MICRO_BATCH, MOST_EXPERT_PARALLEL = 16, 8, 64
PARTS = {
    "compute": "unequal stages or idle GPUs",
    "recompute": "activations computed again",
    "messages": "messages of tensor, context and expert parallelism",
    "bubble": "the pipeline's bubble",
    "gradients": "the exchange of gradients and weights",
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
            "gpus": p.gpus,
            "tp": p.tensor_parallel,
            "pp": p.pipeline_parallel,
            "cp": p.context_parallel,
            "ep": p.expert_parallel,
            "dp": p.data_parallel,
            "zero_stage": p.zero_stage,
            "micro_batch": p.micro_batch,
            "recompute": p.recompute.value,
            "memory_gib": round(self.memory_bytes / 2**30, 2),
            "step_s": round(seconds, 4),
            "tokens_per_s": round(p.global_batch * shape.sequence / seconds),
            "mfu_percent": round(100 * flops / seconds / p.gpus / gpu.peak_flops, 1),
            "bubble_over_ideal": round(bubble_over_ideal(*_pipeline(p)), 4),
            "bubble_over_total": round(bubble_over_total(*_pipeline(p)), 4),
            "parts_s": {name: round(value, 4) for name, value in asdict(self.parts).items()},
            "slower_part": slower_part(self.parts, best),
        }


def _pipeline(parallelism: Parallelism) -> tuple[int, int, int]:
    p = parallelism
    return p.pipeline_parallel, p.micro_batches, p.virtual_stages


def slower_part(parts: StepParts, best: StepParts) -> str:
    """The part that costs most beyond the best division's; empty for the best one itself."""
    names = [field.name for field in fields(parts)]
    extra = {name: getattr(parts, name) - getattr(best, name) for name in names}
    worst = max(extra, key=lambda name: extra[name])
    return PARTS[worst] if parts.seconds > best.seconds else ""


def search(shape: Shape, gpu: GpuFigures, gpus: int, global_batch: int) -> list[Candidate]:
    """All that fit, the fastest first; of equal ones the smaller memory. Raises AdvisorError."""
    checked("gpus", gpus, 1, MOST_GPUS)
    checked("global_batch", global_batch, 1, MOST_BATCH)
    if not isinstance(shape, Shape):
        raise AdvisorError("only transformers are divided over GPUs here", "model")
    room = gpu.memory_bytes - reserve_bytes(gpu.memory_bytes)
    sizes = product(
        (t for t in _powers_of_two(min(GPUS_PER_NODE, gpus)) if shape.heads % t == 0),
        _pipeline_sizes(shape.layers, gpus),
        (c for c in _powers_of_two(MOST_CONTEXT) if shape.sequence % c == 0),
        (b for b in _powers_of_two(MOST_MICRO_BATCH) if global_batch % b == 0),
    )
    divisors = _divisors(global_batch)
    found: list[Candidate] = []
    bound = math.inf
    for t, p, c, micro_batch in sizes:
        replicas = gpus // (t * p * c)
        counts = [d for d in divisors if d <= replicas and global_batch % (d * micro_batch) == 0]
        if not counts:
            continue
        one = Parallelism(
            gpus=t * p * c,
            tensor_parallel=t,
            pipeline_parallel=p,
            context_parallel=c,
            global_batch=global_batch,
            micro_batch=micro_batch,
            sequence_parallel=True,
            zero_stage=1,
        )
        for parallelism in _variants(shape, one):
            candidate = _fastest(shape, gpu, parallelism, counts, room, bound)
            if candidate:
                found.append(candidate)
                bound = min(bound, candidate.parts.seconds)
    return sorted(found, key=lambda each: (each.parts.seconds, each.memory_bytes))


def _variants(shape: Shape, one: Parallelism) -> Iterator[Parallelism]:
    """Of ZeRO and of expert parallelism, of one replica."""
    stages = (1, 2, 3) if one.pipeline_parallel == 1 else (1,)
    for stage, ep in product(stages, _expert_sizes(shape)):
        if stage == 1 and ep == 1:
            yield one
        else:
            yield replace(one, zero_stage=stage, expert_parallel=ep)


def _fastest(
    shape: Shape,
    gpu: GpuFigures,
    one: Parallelism,
    counts: list[int],
    room: float,
    bound: float,
) -> Candidate | None:
    """The fastest number of replicas, with the least recompute that fits. Fewer replicas need more
    memory each, and a micro-batch takes as long for any number of them: where their computing alone
    takes longer than a step that is known, fewer are not looked at."""
    best: Candidate | None = None
    replica_seconds = 0.0  # of one replica that computes all of the batch
    for count in counts:
        if best and replica_seconds / count > bound:
            break
        if count * one.context_parallel % one.expert_parallel:
            continue
        fitting = _least_recompute(shape, one, count, room)
        if fitting is None:
            break
        parallelism, memory = fitting
        parts = step_parts(shape, parallelism, gpu)
        # One GPU alone is faster by the factor of a group.
        replica_seconds = parts.compute * count / CURRENT.group_factor
        bound = min(bound, parts.seconds)
        if best is None or parts.seconds < best.parts.seconds:
            best = Candidate(parallelism, memory, parts)
    return best


def _least_recompute(
    shape: Shape, one: Parallelism, count: int, room: float
) -> tuple[Parallelism, float] | None:
    """With flash attention, no recompute keeps as little as the selective one."""
    for recompute in (Recompute.NONE, Recompute.FULL):
        many = replace(one, gpus=one.gpus * count, recompute=recompute)
        memory = training_bytes(shape, many, flash_attention=True)
        if memory <= room:
            return many, memory
    return None


def _powers_of_two(most: int) -> list[int]:
    return [2**n for n in range(most.bit_length()) if 2**n <= most]


def _divisors(number: int) -> list[int]:
    """The largest first."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)}, reverse=True)


def _expert_sizes(shape: Shape) -> list[int]:
    if not shape.experts:
        return [1]
    return [n for n in _powers_of_two(MOST_EXPERT_PARALLEL) if shape.experts.count % n == 0]


def _pipeline_sizes(layers: int, most: int) -> list[int]:
    """Powers of two, whose stages may be unequal, and the divisors of the layers."""
    top = min(layers, most, 128)
    return sorted({*_powers_of_two(top), *(n for n in range(1, top + 1) if layers % n == 0)})
