"""Does a served model fit, and how fast does it write.

Sources: vLLM's docs for what it reserves (`gpu_memory_utilization`, 0.9); PagedAttention (arXiv
2309.06180) for the cache; Pope et al. (arXiv 2211.05102), sections 2 and 3, for the two phases:
prefill is bound by operations, and each step of decoding reads all weights and caches once, so
that it is bound by the bandwidth of memory until the batch is large. Of a mixture of experts, a
step reads the experts that its tokens reach (see `mixture`). The shares of peak and bandwidth are
those of `step_time`.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from scheduler.advisor.collectives import collective_seconds
from scheduler.advisor.errors import AdvisorError, checked, member
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.kv_cache import shape_token_bytes
from scheduler.advisor.quantisation import FORMATS, Quantisation, weight_bytes
from scheduler.advisor.step_time import CURRENT, LAUNCH_SECONDS, MEMORY_EFFICIENCY
from scheduler.advisor.transformer import LONGEST_SEQUENCE, Shape

# vLLM leaves a tenth of the GPU, for activations, CUDA graphs and buffers.
SERVING_RESERVE = 0.1
MOST_CONCURRENCY, MOST_TENSOR_PARALLEL = 10**6, 1_024
# Of its time, a replica is busy this much: requests do not arrive evenly.
TARGET_UTILISATION = 0.7
MOST_REQUESTS = 10**9


class Bottleneck(StrEnum):
    """What a step of decoding waits for."""

    MEMORY_BANDWIDTH = "memory bandwidth"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class ServingLoad:
    """What users send: requests a second, each with a prompt and an answer in tokens."""

    requests_per_second: float
    prompt_tokens: int
    answer_tokens: int

    def __post_init__(self) -> None:
        checked("requests_per_second", self.requests_per_second, 0, MOST_REQUESTS, whole=False)
        checked("prompt_tokens", self.prompt_tokens, 1, LONGEST_SEQUENCE)
        checked("answer_tokens", self.answer_tokens, 1, LONGEST_SEQUENCE)


@dataclass(frozen=True, slots=True)
class ServingFit:
    """Bytes on each GPU of one replica, and its speed with `concurrency` sequences at a time."""

    weights: float
    kv_cache: float
    reserve: float
    gpu_memory_bytes: float
    max_concurrency: int  # sequences of the whole context; 0 where the weights do not fit
    concurrency: int
    context: int
    prefill_seconds: float  # of one prompt as long as the context
    decode_tokens_per_second: float  # of all sequences together
    limits: Bottleneck

    @property
    def total(self) -> float:
        """Bytes on each GPU."""
        return self.weights + self.kv_cache + self.reserve

    @property
    def fits(self) -> bool:
        return self.total <= self.gpu_memory_bytes

    @property
    def tokens_per_second_each(self) -> float:
        """What one user sees."""
        return self.decode_tokens_per_second / self.concurrency

    def replicas_for(self, load: ServingLoad) -> int:
        """Replicas that answer the load. A request takes a replica's time for its prompt, by its
        share of the context, and for its tokens at the replica's rate; replicas are to be busy
        70 % of their time. An error where not even one sequence fits."""
        if not self.fits:
            raise AdvisorError(
                "%(concurrency)s sequences of %(context)s tokens do not fit: at most %(most)s do",
                "concurrency",
                concurrency=self.concurrency,
                context=self.context,
                most=self.max_concurrency,
            )
        prompt = self.prefill_seconds * load.prompt_tokens / self.context
        answer = load.answer_tokens / self.decode_tokens_per_second
        busy = load.requests_per_second * (prompt + answer)
        return max(1, math.ceil(busy / TARGET_UTILISATION))


def serving_fit(
    shape: Shape,
    quantisation: Quantisation | str,
    gpu: GpuFigures,
    tp: int = 1,
    concurrency: int = 1,
    context: int = 0,
    *,
    kv_bytes: float = 2.0,
) -> ServingFit:
    """One replica on `tp` GPUs or slices. The context, prompt and answer together, is the shape's
    sequence where it is 0; `kv_bytes` of a number in the cache are 1 with fp8. Raises
    AdvisorError."""
    quantisation = member("quantisation", quantisation, Quantisation)
    checked("tp", tp, 1, MOST_TENSOR_PARALLEL)
    checked("concurrency", concurrency, 1, MOST_CONCURRENCY)
    checked("context", context, 0, LONGEST_SEQUENCE)
    checked("kv_bytes", kv_bytes, 0.5, 4, whole=False)
    if not isinstance(shape, Shape) or not shape.is_causal:
        raise AdvisorError("only a model that writes text is served here", "model")
    if shape.heads % tp:
        raise AdvisorError(
            "%(heads)s heads do not divide by tensor parallel %(tp)s",
            "tp",
            heads=shape.heads,
            tp=tp,
        )
    context = context or shape.sequence
    weights = weight_bytes(shape, quantisation) / tp
    sequence = context * shape_token_bytes(shape, kv_bytes, tp)
    reserve = SERVING_RESERVE * gpu.memory_bytes
    room = gpu.memory_bytes - weights - reserve
    decode = _decode_seconds(shape, quantisation, gpu, tp, concurrency, sequence)
    return ServingFit(
        weights=weights,
        kv_cache=sequence * concurrency,
        reserve=reserve,
        gpu_memory_bytes=gpu.memory_bytes,
        max_concurrency=max(0, int(room // sequence)),
        concurrency=concurrency,
        context=context,
        prefill_seconds=_prefill_seconds(shape, quantisation, gpu, tp, context),
        decode_tokens_per_second=concurrency / decode.seconds,
        limits=decode.bottleneck,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    memory: float
    compute: float
    messages: float

    @property
    def seconds(self) -> float:
        """Reading and computing overlap; the all-reduces of tensor parallelism do not."""
        return max(self.memory, self.compute) + self.messages

    @property
    def bottleneck(self) -> Bottleneck:
        is_memory = self.memory >= self.compute
        return Bottleneck.MEMORY_BANDWIDTH if is_memory else Bottleneck.COMPUTE


def read_bytes(shape: Shape, quantisation: Quantisation, tokens: float) -> float:
    """Of the weights that a step over `tokens` tokens reads: all but the table of tokens, and of
    experts those that are reached."""
    every = weight_bytes(shape, quantisation)
    of = FORMATS[quantisation]
    tables = shape.parameters - shape.layer_parameters - shape.vocabulary * shape.hidden
    every -= max(0.0, tables) * of.table_bits / 8
    if not shape.experts:
        return every
    unread = 1 - shape.experts.distinct(tokens) / shape.experts.count
    return every - shape.routed_parameters * of.layer_bits / 8 * unread


def _decode_seconds(
    shape: Shape,
    quantisation: Quantisation,
    gpu: GpuFigures,
    tp: int,
    concurrency: int,
    sequence_bytes: float,
) -> _Step:
    """One token of every sequence, whose caches are full: the slowest step."""
    read = read_bytes(shape, quantisation, concurrency) / tp + concurrency * sequence_bytes
    attended = sequence_bytes / shape_token_bytes(shape, 1.0, tp)
    flops = 2 * shape.active_parameters + _attention_flops(shape, attended)
    return _Step(
        memory=read / (gpu.memory_bandwidth * MEMORY_EFFICIENCY),
        compute=concurrency * flops / tp / _rate(gpu, quantisation),
        messages=_messages(shape, gpu, tp, concurrency),
    )


def _prefill_seconds(
    shape: Shape, quantisation: Quantisation, gpu: GpuFigures, tp: int, context: int
) -> float:
    """One prompt of the context's length: its tokens attend to half of it on average, and the
    logits are made for the last one only."""
    flops = context * 2 * shape.active_layer_parameters + 2 * shape.vocabulary * shape.hidden
    attention = context * _attention_flops(shape, context / 2) / CURRENT.attention_efficiency
    compute = (flops + attention) / tp / _rate(gpu, quantisation)
    read = read_bytes(shape, quantisation, context) / tp
    memory = read / (gpu.memory_bandwidth * MEMORY_EFFICIENCY)
    return max(compute, memory) + _messages(shape, gpu, tp, context)


def _attention_flops(shape: Shape, attended: float) -> float:
    """Of one token in all layers: scores and their product with the values."""
    return 4.0 * shape.layers * attended * shape.hidden * shape.attention_ratio


def _rate(gpu: GpuFigures, quantisation: Quantisation) -> float:
    """Operations a second of matrix products; a board without the type multiplies in bf16."""
    peak = gpu.peaks.get(FORMATS[quantisation].multiplies_in, gpu.peak_flops)
    return peak * gpu.matrix_efficiency


def _messages(shape: Shape, gpu: GpuFigures, tp: int, tokens: float) -> float:
    """Two all-reduces of every layer (Megatron-LM, arXiv 1909.08053, section 3)."""
    if tp == 1:
        return 0.0
    size = 2.0 * tokens * shape.hidden
    one = LAUNCH_SECONDS + collective_seconds("all_reduce", size, tp, gpu.bus_bandwidth)
    return 2 * shape.layers * one
