"""All memory of one GPU in training: states, activations, and what a layer works on."""

from scheduler.advisor.activation_memory import layer_bytes, logit_bytes, stage_bytes
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.state_memory import BF16_WITH_FP32_GRADIENTS, ParameterBytes
from scheduler.advisor.transformer import Recompute, Shape

GIB = 2**30
RESERVE_FIXED, RESERVE_SHARE = GIB, 0.05


def reserve_bytes(gpu_memory_bytes: float) -> float:
    """What no formula foretells: CUDA's context, buffers of NCCL and of kernels, fragments of the
    allocator. 1 GiB and a twentieth, a choice of this project: 5 GiB of 80, which is what
    EleutherAI's cookbook found unexplained in its runs."""
    return RESERVE_FIXED + RESERVE_SHARE * gpu_memory_bytes


def training_bytes(
    shape: Shape,
    parallelism: Parallelism,
    regime: ParameterBytes = BF16_WITH_FP32_GRADIENTS,
    flash_attention: bool = False,
) -> float:
    """States and activations of the first stage. With full recompute one layer is held whole
    besides the inputs of all."""
    total = state_bytes(shape, parallelism, regime)
    total += stage_bytes(shape, parallelism, flash_attention)
    if parallelism.recompute is Recompute.FULL:
        total += layer_bytes(shape, parallelism, Recompute.NONE, flash_attention)
    if parallelism.pipeline_parallel == 1:
        total += logit_bytes(shape, parallelism)
    return total


def state_bytes(
    shape: Shape, parallelism: Parallelism, regime: ParameterBytes = BF16_WITH_FP32_GRADIENTS
) -> float:
    """Weights, gradients and optimizer of the first stage. Experts are divided over the GPUs of
    expert parallelism before ZeRO divides them (GShard, arXiv 2006.16668). With ZeRO 3 the weights
    of two layers are gathered at a time, the one that works and the one that comes next, and never
    more than all of them (PyTorch FSDP, arXiv 2304.11277, section 3.3)."""
    t, stage = parallelism.tensor_parallel, parallelism.zero_stage
    copies = parallelism.data_parallel * parallelism.context_parallel
    ep = parallelism.expert_parallel
    on_stage = parallelism.stage_layers(shape.layers) / shape.layers / t
    routed = shape.routed_parameters * on_stage
    plain = shape.layer_parameters * on_stage - routed
    plain += table_parameters(shape, parallelism)
    divided = plain * regime.sharded(stage, copies)
    divided += routed / ep * regime.sharded(stage, max(1, copies // ep))
    if stage < 3:
        return divided
    layer = (plain + routed / ep) / parallelism.stage_layers(shape.layers)
    gathered = 2 * layer * (regime.weights + regime.gradients)
    whole = (plain + routed / ep) * regime.total
    return min(whole, divided + gathered)


def table_parameters(shape: Shape, parallelism: Parallelism) -> float:
    """On the first stage of those outside the layers: the table of tokens, and of one stage all."""
    if parallelism.pipeline_parallel == 1:
        tables = shape.embedding_parameters + shape.other_parameters
    else:
        tables = float(shape.vocabulary * shape.hidden)
    return tables / parallelism.tensor_parallel
