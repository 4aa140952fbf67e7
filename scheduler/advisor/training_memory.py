"""All memory of one GPU in training: states, activations, and what a layer works on."""

from scheduler.advisor.activation_memory import layer_bytes, stage_bytes
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.state_memory import BF16_WITH_FP32_GRADIENTS, ParameterBytes
from scheduler.advisor.transformer import Recompute, Shape


def training_bytes(
    shape: Shape,
    parallelism: Parallelism,
    zero_stage: int = 0,
    regime: ParameterBytes = BF16_WITH_FP32_GRADIENTS,
    flash_attention: bool = False,
) -> float:
    """States and activations of the first stage. With full recompute one layer is held whole
    besides the inputs of all; with ZeRO 3 the weights of two layers are gathered at a time, the
    one that works and the one that comes next."""
    t = parallelism.tensor_parallel
    layer = shape.layer_parameters / shape.layers
    on_stage = layer * shape.layers / (t * parallelism.pipeline_parallel)
    copies = parallelism.data_parallel * parallelism.context_parallel
    total = on_stage * regime.sharded(zero_stage, copies)
    total += stage_bytes(shape, parallelism, flash_attention)
    if parallelism.recompute is Recompute.FULL:
        total += layer_bytes(shape, parallelism, Recompute.NONE, flash_attention)
    if zero_stage == 3:
        total += min(2, shape.layers) * layer / t * (regime.weights + regime.gradients)
    return total
