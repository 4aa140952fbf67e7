"""Does a training fit one GPU or slice, by part: full training, LoRA and QLoRA.

Sources: ZeRO (arXiv 1910.02054), section 3.1, and Megatron-LM's docs on its distributed optimizer
for Adam; "Model training anatomy" of transformers' docs for SGD and Adam in 8 bits (arXiv
2110.02861); LoRA (arXiv 2106.09685), section 4.1; QLoRA (arXiv 2305.14314), section 3, for
4 bits with constants that are quantised again; PEFT keeps adapters in 32 bits. ZeRO-Offload (arXiv
2101.06840) and ZeRO-Infinity (arXiv 2104.07857) for states on the host.
"""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.advisor.activation_memory import layer_bytes, logit_bytes, stage_bytes
from scheduler.advisor.errors import AdvisorError, checked, member
from scheduler.advisor.networks import ConvolutionalNetwork
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.state_memory import (
    BF16_WITH_FP32_GRADIENTS,
    FP32_ADAM,
    MIXED_ADAM,
    ParameterBytes,
)
from scheduler.advisor.training_memory import reserve_bytes
from scheduler.advisor.transformer import Recompute, Shape, resized

MOST_BATCH, MOST_GPUS, MOST_RANK = 10**6, 65_536, 4_096
DEFAULT_RANK = 16
NF4_BYTES = (4 + 0.127) / 8  # of a quantised weight, with its constants
# PyTorch without a compiler keeps more of a gated layer than the formula: 14 % (docs/advisor.md).
UNCOMPILED_GATED = 1.14


class TuningRegime(StrEnum):
    """Which numbers of a parameter a training keeps, and of which parameters."""

    ADAM = "adam"
    ADAM_BF16_GRADIENTS = "adam-bf16-gradients"
    ADAM_8BIT = "adam-8bit"
    SGD = "sgd"
    SGD_MOMENTUM = "sgd-momentum"
    LORA = "lora"
    QLORA = "qlora"


class Offload(StrEnum):
    """What is kept in the host's memory instead of the GPU's."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    ALL = "all"  # weights and gradients too; the GPU has two layers at a time


# Bytes of a parameter: weights, gradients, optimizer with the copy of the weights in 32 bits.
REGIME_BYTES: dict[TuningRegime, ParameterBytes] = {
    TuningRegime.ADAM: BF16_WITH_FP32_GRADIENTS,
    TuningRegime.ADAM_BF16_GRADIENTS: MIXED_ADAM,
    TuningRegime.ADAM_8BIT: ParameterBytes(2, 4, 4 + 2),
    TuningRegime.SGD: ParameterBytes(2, 4, 4),
    TuningRegime.SGD_MOMENTUM: ParameterBytes(2, 4, 4 + 4),
}
ADAPTERS = (TuningRegime.LORA, TuningRegime.QLORA)


@dataclass(frozen=True, slots=True)
class TrainingParts:
    """Bytes on each GPU. They add up to what the training needs."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    reserve: float

    @property
    def total(self) -> float:
        states = self.weights + self.gradients + self.optimizer
        return states + self.activations + self.reserve


@dataclass(frozen=True, slots=True)
class TrainingFit:
    """What a training needs of one GPU or slice, and of the host."""

    parts: TrainingParts
    gpu_memory_bytes: float
    trained_parameters: float
    host_bytes: float  # of all its GPUs together, for what is offloaded

    @property
    def total(self) -> float:
        """Bytes on each GPU."""
        return self.parts.total

    @property
    def fits(self) -> bool:
        return self.total <= self.gpu_memory_bytes


def training_fit(
    shape: Shape | ConvolutionalNetwork,
    regime: TuningRegime | str,
    gpu_memory_bytes: float,
    batch: int = 1,
    sequence: int = 0,
    recompute: Recompute | str = Recompute.NONE,
    gpus: int = 1,
    *,
    offload: Offload | str = Offload.NONE,
    rank: int = DEFAULT_RANK,
) -> TrainingFit:
    """Of a batch that is divided over the GPUs, each with a part of the states, as FSDP or ZeRO 3
    has it. The sequence is the shape's where it is 0; a network of convolutions has none. The rank
    is that of adapters on every matrix of every layer. Raises AdvisorError."""
    regime = member("regime", regime, TuningRegime)
    offload = member("offload", offload, Offload)
    recompute = member("recompute", recompute, Recompute)
    checked("gpu_memory_bytes", gpu_memory_bytes, 1, 2**44, whole=False)
    checked("batch", batch, 1, MOST_BATCH)
    checked("gpus", gpus, 1, MOST_GPUS)
    checked("rank", rank, 1, MOST_RANK)
    each = -(-batch // gpus)
    reserve = reserve_bytes(gpu_memory_bytes)
    if isinstance(shape, ConvolutionalNetwork):
        if regime in ADAPTERS:
            raise AdvisorError(
                "only transformers are trained with %(regime)s here", "regime", regime=regime.value
            )
        activations = shape.activation_bytes(each)
        states = _States.of_all(shape.parameters, REGIME_BYTES[regime], shape.parameters)
    else:
        shape = resized(shape, sequence)
        activations = _activations(shape, each, recompute)
        states = _states(shape, regime, rank)
        if regime in ADAPTERS:
            activations += _adapter_activations(shape, each, rank, recompute)
    return states.fit(gpus, offload, activations, reserve, gpu_memory_bytes)


def adapter_parameters(shape: Shape, rank: int) -> float:
    """r (in + out) of every matrix of every layer, experts and routers left out."""
    return rank * _matrix_widths(shape) * shape.layers


def _matrix_widths(shape: Shape) -> float:
    """Widths in and out of one layer's adapted matrices, added up."""
    h = shape.hidden
    inner = shape.feed_forward_ratio * h
    if shape.experts:
        inner = shape.experts.shared_width
    feed_forward = (3 if shape.gated else 2) * (h + inner) if inner else 0.0
    if shape.latent:
        of, heads = shape.latent, shape.heads
        queries = heads * of.head_size
        widths = h + of.cached + of.kv_rank + heads * (of.content_size + of.value_size)
        widths += heads * of.value_size + h
        widths += h + 2 * of.query_rank + queries if of.query_rank else h + queries
        return widths + feed_forward
    width = h * shape.attention_ratio
    keys = width * shape.kv_share
    return 2 * (h + width) + 2 * (h + keys) + feed_forward


@dataclass(frozen=True, slots=True)
class _States:
    """Bytes of all weights, gradients and optimizer states, before they are divided."""

    weights: float
    gradients: float
    optimizer: float
    trained: float
    largest: float  # bytes of the weights of two layers, which work at a time

    @classmethod
    def of_all(cls, count: float, each: ParameterBytes, working: float) -> "_States":
        return cls(
            count * each.weights,
            count * each.gradients,
            count * each.optimizer,
            count,
            working * each.weights,
        )

    def fit(
        self, gpus: int, offload: Offload, activations: float, reserve: float, memory: float
    ) -> TrainingFit:
        weights = min(self.weights, self.weights / gpus + self.largest)
        gradients, optimizer, host = self.gradients / gpus, self.optimizer / gpus, 0.0
        if offload is not Offload.NONE:
            optimizer, host = 0.0, self.optimizer
        if offload is Offload.ALL:
            weights = min(weights, self.largest)
            layers = self.largest / self.weights
            gradients = min(gradients, self.gradients * layers)
            host += self.weights + self.gradients
        parts = TrainingParts(weights, gradients, optimizer, activations, reserve)
        return TrainingFit(parts, memory, self.trained, host)


def _states(shape: Shape, regime: TuningRegime, rank: int) -> _States:
    working = min(2, shape.layers) * shape.layer_parameters / shape.layers
    if regime not in ADAPTERS:
        return _States.of_all(shape.parameters, REGIME_BYTES[regime], working)
    trained = adapter_parameters(shape, rank)
    quantised = shape.layer_parameters if regime is TuningRegime.QLORA else 0.0
    frozen = quantised * NF4_BYTES + (shape.parameters - quantised) * 2
    each = NF4_BYTES if quantised else 2
    return _States(
        frozen + trained * FP32_ADAM.weights,
        trained * FP32_ADAM.gradients,
        trained * FP32_ADAM.optimizer,
        trained,
        working * each,
    )


def _activations(shape: Shape, batch: int, recompute: Recompute) -> float:
    """With attention that keeps no scores, and the logits; with full recompute one layer whole."""
    parallelism = Parallelism(1, 1, 1, batch, batch, recompute=recompute)
    layers = stage_bytes(shape, parallelism, flash_attention=True)
    if recompute is Recompute.FULL:
        layers += layer_bytes(shape, parallelism, Recompute.NONE, flash_attention=True)
    return layers * (UNCOMPILED_GATED if shape.gated else 1) + logit_bytes(shape, parallelism)


def _adapter_activations(shape: Shape, batch: int, rank: int, recompute: Recompute) -> float:
    """What each adapter keeps between its two matrices; their inputs are those of the layer."""
    matrices = (4 if shape.gated else 3) + 3
    layers = 1 if recompute is Recompute.FULL else shape.layers
    return 4.0 * batch * shape.sequence * rank * matrices * layers
