"""Time of one training step of a transformer, from its matrices, memory traffic and collectives.

What a GPU does for one micro-batch of its stage is the sum of four parts: matrix products at the
rate that large ones reach; the core of attention; element-wise passes at the bandwidth of memory;
and messages, which are the all-reduces of tensor parallelism as far as matrices do not hide them,
what attention does not hide of context parallelism's ring, and tokens on their way to experts and
back. Messages between pipeline stages are small beside these and left out. The bubble, the exchange
of gradients and the optimizer's step come once a step; ZeRO 2 exchanges gradients, and ZeRO 3
weights too, with every micro-batch (ZeRO, arXiv 1910.02054, section 7: twice and three times the
parameters, where data parallelism has twice).

The constants are fitted to published rows and to layers measured on an H100: `docs/advisor.md` has
the error of each.
"""

from dataclasses import dataclass

from scheduler.advisor.collectives import between_nodes_seconds, collective_seconds
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.transformer import Recompute, Shape

SCORE_BYTES = 8.0  # for each of b a s^2: masked softmax and dropout, unless fused
MEMORY_EFFICIENCY = 0.88
# Matrices of so few tokens reach half of that rate; measured rows have 2,048 and more.
HALF_RATE_TOKENS = 96
LAUNCH_SECONDS = 6e-6  # of a collective, whatever its size
OPTIMIZER_TRAFFIC = 40.0  # bytes for each parameter
GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Software:
    """What the training program does that the model's shape does not say."""

    flash_attention: bool  # scores never reach memory, and those of later tokens are left out
    overlap: bool  # gradients travel during the last micro-batch
    gradient_bytes: float  # of a parameter, as they travel
    # Element-wise passes of a layer's forward pass, as bytes for each of s b h, read and written:
    # norms, dropouts, residuals; those between split matrices shrink with tensor parallelism.
    whole_bytes: float
    split_bytes: float
    logit_bytes: float  # for each of b s V: the loss, in 32 bits, and its gradient
    attention_efficiency: float  # of what large matrices reach
    exposed_messages: float  # share of tensor parallelism's that matrices do not hide
    # Seconds of a run on several GPUs over those of one GPU's work: stragglers, uneven kernels.
    group_factor: float
    # Of the parameters, those that get gradients: frozen ones have none, and no optimizer.
    trained_share: float = 1
    weight_bytes: float = 2  # of a parameter, as ZeRO gathers it
    # Written and read for each parameter of the layers in each pass, before matrices multiply it.
    unpacked_bytes: float = 0


MEGATRON_2021 = Software(
    flash_attention=False,
    overlap=False,
    gradient_bytes=4,
    whole_bytes=18,
    split_bytes=44,
    logit_bytes=36,
    attention_efficiency=0.43,
    exposed_messages=1,
    group_factor=1,
)
CURRENT = Software(
    flash_attention=True,
    overlap=True,
    gradient_bytes=2,
    whole_bytes=34,
    split_bytes=44,
    logit_bytes=80,
    attention_efficiency=0.57,
    exposed_messages=0.2,
    group_factor=1.2,
)


@dataclass(frozen=True, slots=True)
class StepParts:
    """Where the seconds of a step go. The parts add up to the step."""

    compute: float
    recompute: float
    messages: float
    bubble: float
    gradients: float  # what the last micro-batch does not hide
    optimizer: float

    @property
    def seconds(self) -> float:
        worked = self.compute + self.recompute + self.messages + self.bubble
        return worked + self.gradients + self.optimizer


def step_parts(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, software: Software = CURRENT
) -> StepParts:
    """One step over the global batch."""
    compute, again, messages = _micro_batch_seconds(shape, parallelism, gpu, software)
    micro = compute + again + messages
    count = parallelism.micro_batches
    return StepParts(
        compute=compute * count,
        recompute=again * count,
        messages=messages * count,
        bubble=micro * (parallelism.pipeline_parallel - 1) / parallelism.virtual_stages,
        gradients=_exposed_exchange(shape, parallelism, gpu, software, micro),
        optimizer=_optimizer_seconds(shape, parallelism, gpu) * software.trained_share,
    )


def _micro_batch_seconds(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, software: Software
) -> tuple[float, float, float]:
    """Forward and backward of one micro-batch through one stage: computing, computing again, and
    messages of tensor parallelism. All stages wait for the last one's logits."""
    t, s, h = parallelism.tensor_parallel, shape.sequence, shape.hidden
    tokens = parallelism.micro_batch * s / parallelism.context_parallel
    rate = gpu.peak_flops * gpu.matrix_efficiency
    memory = gpu.memory_bandwidth * MEMORY_EFFICIENCY
    # Every expert on the GPU has matrices of its own, which few tokens multiply.
    idle = _layer_flops_of_experts(shape, parallelism)
    matrices = (tokens * shape.layer_token_flops + HALF_RATE_TOKENS * idle) / t / rate
    core = 4.0 * tokens * s * h * shape.attention_ratio / t / (rate * software.attention_efficiency)
    if software.flash_attention:
        core /= 2
    else:
        core += tokens * shape.heads * s / t * SCORE_BYTES / memory
    whole = software.whole_bytes / (t if parallelism.sequence_parallel else 1)
    passes = tokens * h * (whole + software.split_bytes / t) / memory
    unpacked = software.unpacked_bytes * shape.layer_parameters / shape.layers / t / memory
    forward = matrices + core + passes + unpacked
    # The backward pass multiplies twice: for the inputs, and for the weights that are trained.
    frozen = (1 - software.trained_share) * matrices + unpacked
    messages = 2 * software.exposed_messages * _tensor_seconds(2.0 * tokens * h, t, gpu)
    messages += max(0.0, _context_seconds(shape, parallelism, gpu) - core)
    messages += _expert_seconds(shape, parallelism, gpu, tokens)
    again, messages_again = {
        Recompute.FULL: (forward, messages),
        Recompute.SELECTIVE: (core, 0.0),
        Recompute.NONE: (0.0, 0.0),
    }[parallelism.recompute]
    products = 4.0 + 2.0 * software.trained_share
    logits = tokens * shape.vocabulary / t * (products * h / rate + software.logit_bytes / memory)
    slower = software.group_factor if parallelism.gpus > 1 else 1.0
    layers = parallelism.stage_layers(shape.layers) * slower
    return (
        (3 * forward - frozen) * layers + logits * slower,
        again * layers,
        (2 * messages + messages_again) * layers,
    )


def _tensor_seconds(size: float, ranks: int, gpu: GpuFigures) -> float:
    if ranks == 1:
        return 0.0
    return LAUNCH_SECONDS + collective_seconds("all_reduce", size, ranks, gpu.bus_bandwidth)


def _context_seconds(shape: Shape, parallelism: Parallelism, gpu: GpuFigures) -> float:
    """Keys and values of the other parts of the sequence, round a ring; attention hides what it
    can. The ring crosses nodes where its GPUs do not fit one."""
    c, t = parallelism.context_parallel, parallelism.tensor_parallel
    tokens = parallelism.micro_batch * shape.sequence * (c - 1) / c
    width = shape.hidden * shape.attention_ratio * shape.kv_share
    size = 2 * 2.0 * tokens * width / t
    inside = t * c <= GPUS_PER_NODE
    return size / (gpu.bus_bandwidth / 2 if inside else gpu.network_bandwidth)


def _layer_flops_of_experts(shape: Shape, parallelism: Parallelism) -> float:
    """Of one token through all matrices of a layer that a GPU has, its experts among them."""
    if not shape.experts:
        return shape.layer_token_flops
    plain = shape.layer_parameters - shape.routed_parameters
    return 2 * (plain + shape.routed_parameters / parallelism.expert_parallel) / shape.layers


def _expert_seconds(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, tokens: float
) -> float:
    """Tokens to their experts and back, of a layer on average, in one pass: two all-to-alls of k
    copies of each token (GShard, arXiv 2006.16668, section 3.2)."""
    ep, t = parallelism.expert_parallel, parallelism.tensor_parallel
    if ep == 1 or not shape.experts:
        return 0.0
    size = 2.0 * tokens * shape.experts.top * shape.hidden / t * (ep - 1) / ep
    inside = t * ep <= GPUS_PER_NODE
    one = LAUNCH_SECONDS + size / (gpu.bus_bandwidth / 2 if inside else gpu.network_bandwidth)
    return 2 * one * shape.expert_layers / shape.layers


def _exposed_exchange(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, software: Software, micro: float
) -> float:
    """What computing does not hide of gradients and, with ZeRO, of weights. A reduce-scatter or an
    all-gather takes half of the time of an all-reduce. ZeRO 1 has the volume of an all-reduce."""

    def exposed(seconds: float) -> float:
        return max(0.0, seconds - micro) if software.overlap else seconds

    gradient_bytes = software.gradient_bytes * software.trained_share
    gradients = _exchange_seconds(shape, parallelism, gpu, gradient_bytes)
    if parallelism.zero_stage < 2:
        return exposed(gradients)
    weights = _exchange_seconds(shape, parallelism, gpu, software.weight_bytes)
    count = parallelism.micro_batches
    if parallelism.zero_stage == 2:
        return count * exposed(gradients / 2) + exposed(weights / 2)
    return count * exposed(gradients / 2 + weights)


def _exchange_seconds(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, parameter_bytes: float
) -> float:
    """All-reduces of the stage's parameters over all replicas, and of its experts over those that
    have the same. The parts of a sequence have gradients of the same weights."""
    copies = parallelism.data_parallel * parallelism.context_parallel
    split = parallelism.tensor_parallel * parallelism.pipeline_parallel
    ep = parallelism.expert_parallel
    routed = shape.routed_parameters / split
    plain = shape.parameters / split - routed
    seconds = _all_reduce_seconds(plain * parameter_bytes, copies, parallelism, gpu)
    if not routed:
        return seconds
    same = max(1, copies // ep)
    return seconds + _all_reduce_seconds(routed / ep * parameter_bytes, same, parallelism, gpu)


def _all_reduce_seconds(
    size: float, copies: int, parallelism: Parallelism, gpu: GpuFigures
) -> float:
    """Hierarchical: within nodes as far as copies share one, then between nodes."""
    inside = min(copies, max(1, GPUS_PER_NODE // parallelism.tensor_parallel))
    within = collective_seconds("all_reduce", size, inside, gpu.bus_bandwidth)
    nodes = -(-copies // inside)
    return within + between_nodes_seconds(size, nodes, inside, gpu.network_bandwidth)


def _optimizer_seconds(shape: Shape, parallelism: Parallelism, gpu: GpuFigures) -> float:
    """Of the parameters whose states a GPU has."""
    split = parallelism.tensor_parallel * parallelism.pipeline_parallel
    if parallelism.zero_stage:
        split *= parallelism.data_parallel * parallelism.context_parallel
    traffic = OPTIMIZER_TRAFFIC * shape.parameters / split
    return traffic / (gpu.memory_bandwidth * MEMORY_EFFICIENCY)
