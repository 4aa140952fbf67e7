"""Time of one training step of a transformer, from its matrices, memory traffic and collectives.

What a GPU does for one micro-batch of its stage is the sum of four parts: matrix products at the
rate that large ones reach; the core of attention; element-wise passes at the bandwidth of memory;
and messages, which are the all-reduces of tensor parallelism as far as matrices do not hide them,
and what attention does not hide of context parallelism's ring. Messages between pipeline stages
are small beside these and left out. The bubble, the exchange of gradients and the optimizer's step
come once a step.

The constants are fitted to published rows and to layers measured on an H100: `docs/advisor.md` has
the error of each.
"""

from dataclasses import asdict, dataclass

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
        return float(sum(asdict(self).values()))


def step_parts(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, software: Software = CURRENT
) -> StepParts:
    """One step over the global batch."""
    compute, again, messages = _micro_batch_seconds(shape, parallelism, gpu, software)
    micro = compute + again + messages
    exchange = _gradient_seconds(shape, parallelism, gpu, software.gradient_bytes)
    count = parallelism.micro_batches
    return StepParts(
        compute=compute * count,
        recompute=again * count,
        messages=messages * count,
        bubble=micro * (parallelism.pipeline_parallel - 1) / parallelism.virtual_stages,
        gradients=max(0.0, exchange - micro) if software.overlap else exchange,
        optimizer=_optimizer_seconds(shape, parallelism, gpu),
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
    matrices = (tokens + HALF_RATE_TOKENS) * shape.layer_token_flops / t / rate
    core = 4.0 * tokens * s * h * shape.attention_ratio / t / (rate * software.attention_efficiency)
    if software.flash_attention:
        core /= 2
    else:
        core += tokens * shape.heads * s / t * SCORE_BYTES / memory
    whole = software.whole_bytes / (t if parallelism.sequence_parallel else 1)
    passes = tokens * h * (whole + software.split_bytes / t) / memory
    forward = matrices + core + passes
    messages = 2 * software.exposed_messages * _tensor_seconds(2.0 * tokens * h, t, gpu)
    messages += max(0.0, _context_seconds(shape, parallelism, gpu) - core)
    again, messages_again = {
        Recompute.FULL: (forward, messages),
        Recompute.SELECTIVE: (core, 0.0),
        Recompute.NONE: (0.0, 0.0),
    }[parallelism.recompute]
    logits = tokens * shape.vocabulary / t * (6.0 * h / rate + software.logit_bytes / memory)
    slower = software.group_factor if parallelism.gpus > 1 else 1.0
    layers = parallelism.stage_layers(shape.layers) * slower
    return (
        3 * forward * layers + logits * slower,
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


def _stage_parameters(shape: Shape, parallelism: Parallelism) -> float:
    return shape.parameters / (parallelism.tensor_parallel * parallelism.pipeline_parallel)


def _gradient_seconds(
    shape: Shape, parallelism: Parallelism, gpu: GpuFigures, gradient_bytes: float
) -> float:
    """A hierarchical all-reduce: within nodes as far as replicas share one, then between nodes.
    The parts of a sequence have gradients of the same weights."""
    d = parallelism.data_parallel * parallelism.context_parallel
    size = gradient_bytes * _stage_parameters(shape, parallelism)
    inside = min(d, max(1, GPUS_PER_NODE // parallelism.tensor_parallel))
    within = collective_seconds("all_reduce", size, inside, gpu.bus_bandwidth)
    nodes = -(-d // inside)
    return within + between_nodes_seconds(size, nodes, inside, gpu.network_bandwidth)


def _optimizer_seconds(shape: Shape, parallelism: Parallelism, gpu: GpuFigures) -> float:
    traffic = OPTIMIZER_TRAFFIC * _stage_parameters(shape, parallelism)
    return traffic / (gpu.memory_bandwidth * MEMORY_EFFICIENCY)
