"""Time of a training step as `fine_tuning` divides it: FSDP over all GPUs, one micro-batch each.

The formulas and constants are those of `step_time`. Sources of what adapters change: LoRA (arXiv
2106.09685), section 4.2: frozen weights get no gradients, so that of the backward pass' two
products of each matrix one is left out, and gradients and optimizer are those of the adapters;
QLoRA (arXiv 2305.14314), section 3: weights of 4 bits are written out in 16 before each product,
which is counted as one more pass over them, and travel in 4 bits. PyTorch FSDP (arXiv 2304.11277),
section 3.3: weights are gathered, and gradients exchanged, with every micro-batch.

Steps of adapters were held against no measurement.
"""

from dataclasses import dataclass, replace

from scheduler.advisor.errors import AdvisorError, checked, member
from scheduler.advisor.fine_tuning import (
    ADAPTERS,
    DEFAULT_RANK,
    MOST_BATCH,
    MOST_GPUS,
    NF4_BYTES,
    TuningRegime,
    adapter_parameters,
)
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.networks import ConvolutionalNetwork
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import CURRENT, Software, StepParts, step_parts
from scheduler.advisor.transformer import Recompute, Shape


@dataclass(frozen=True, slots=True)
class TuningStep:
    """One step, and the division that it is of."""

    parallelism: Parallelism
    parts: StepParts


def tuning_step(
    shape: Shape | ConvolutionalNetwork,
    regime: TuningRegime | str,
    gpu: GpuFigures,
    batch: int = 1,
    recompute: Recompute | str = Recompute.NONE,
    gpus: int = 1,
    *,
    rank: int = DEFAULT_RANK,
) -> TuningStep:
    """Of a batch that is divided over the GPUs, at least one sequence for each. Raises
    AdvisorError."""
    regime = member("regime", regime, TuningRegime)
    recompute = member("recompute", recompute, Recompute)
    checked("batch", batch, 1, MOST_BATCH)
    checked("gpus", gpus, 1, MOST_GPUS)
    if not isinstance(shape, Shape):
        raise AdvisorError("only the steps of transformers are timed here", "model")
    each = -(-batch // gpus)
    parallelism = Parallelism(
        gpus=gpus,
        tensor_parallel=1,
        pipeline_parallel=1,
        global_batch=each * gpus,
        micro_batch=each,
        recompute=recompute,
        zero_stage=3 if gpus > 1 else 0,
    )
    software = tuning_software(shape, regime, rank)
    return TuningStep(parallelism, step_parts(shape, parallelism, gpu, software))


def tuning_software(shape: Shape, regime: TuningRegime, rank: int = DEFAULT_RANK) -> Software:
    """Of today's programs, with what adapters leave out and add."""
    if regime not in ADAPTERS:
        return CURRENT
    software = replace(CURRENT, trained_share=adapter_parameters(shape, rank) / shape.parameters)
    if regime is TuningRegime.QLORA:
        software = replace(software, weight_bytes=NF4_BYTES, unpacked_bytes=NF4_BYTES + 2)
    return software
