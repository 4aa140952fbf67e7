"""Bytes of weights, gradients and optimizer states, for each GPU and for each node.

Sources: ZeRO (arXiv 1910.02054), figure 1; DeepSpeed's estimators in
deepspeed/runtime/zero/stage_1_and_2.py and stage3.py; Megatron-LM's docs on its distributed
optimizer.
"""

from dataclasses import dataclass

from scheduler.advisor.errors import AdvisorError, one_of
from scheduler.advisor.quantities import dtype_bytes


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes of one parameter in training."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer

    def sharded(self, stage: int, data_parallel: int) -> float:
        """Bytes of a parameter on each GPU by ZeRO's stage. Stage 1 is also Megatron's
        distributed optimizer, stage 3 what FSDP does."""
        if stage not in range(4):
            raise AdvisorError("the ZeRO stage is 0, 1, 2 or 3", "zero_stage")
        if data_parallel < 1:
            raise AdvisorError("the data-parallel size must be at least 1", "dp")
        parts = (self.optimizer, self.gradients, self.weights)
        divided = sum(parts[:stage])
        return self.total - divided + divided / data_parallel


# Adam keeps a copy of the weights in 32 bits and two moments: 12 bytes.
MIXED_ADAM = ParameterBytes(2, 2, 12)
BF16_WITH_FP32_GRADIENTS = ParameterBytes(2, 4, 12)  # Megatron's default, and the careful one
# fp16 gradients are copied to 32 bits for the optimizer's step.
FP16_WITH_FP16_GRADIENTS = ParameterBytes(2, 2, 16)
FP32_ADAM = ParameterBytes(4, 4, 8)
OPTIMIZER_BYTES = {"sgd": 0.0, "momentum": 4.0, "adam": 8.0, "adamw": 8.0, "adam8bit": 2.0}


def regime(weights: str, gradients: str) -> ParameterBytes:
    """The regime of a pair of types, as Megatron-LM lists them."""
    known = {
        ("fp16", "fp16"): FP16_WITH_FP16_GRADIENTS,
        ("bf16", "fp32"): BF16_WITH_FP32_GRADIENTS,
        ("bf16", "bf16"): MIXED_ADAM,
        ("fp32", "fp32"): FP32_ADAM,
    }
    if (weights, gradients) not in known:
        pairs = (f"{w} with {g} gradients" for w, g in known)
        raise one_of("kind", f"{weights} with {gradients} gradients", pairs)
    return known[weights, gradients]


def single_type(dtype: str, optimizer: str) -> ParameterBytes:
    """One type for weights and gradients; the optimizer's moments in 32 bits."""
    if optimizer not in OPTIMIZER_BYTES:
        raise one_of("optimizer", optimizer, OPTIMIZER_BYTES)
    size = dtype_bytes(dtype)
    return ParameterBytes(size, size, OPTIMIZER_BYTES[optimizer])


@dataclass(frozen=True, slots=True)
class DeepSpeedMemory:
    """DeepSpeed's own estimate of states, in bytes; activations are not part of it."""

    parameters: float
    stage: int
    gpus_per_node: int
    nodes: int = 1
    largest_layer_parameters: float = 0
    parameters_on_host: bool = False
    optimizer_on_host: bool = False
    zero_init: bool = True
    buffer_factor: float = 1.5

    @property
    def gpu_bytes(self) -> float:
        gpus = self.gpus_per_node * self.nodes
        if self.stage == 2:
            return self.parameters * (2 if self.optimizer_on_host else 2 + 18 / gpus)
        layer = 4 * self.largest_layer_parameters
        if self.optimizer_on_host:
            return layer if self.parameters_on_host else layer + 2 * self.parameters / gpus
        return layer + 18 * self.parameters / gpus

    @property
    def host_bytes(self) -> float:
        """Of each node."""
        loaded = 4 * self.gpus_per_node  # every process loads the weights in 32 bits
        if self.stage == 2:
            copies = max(loaded * self.nodes, 16) if self.optimizer_on_host else loaded
            return self.parameters * copies * self.buffer_factor
        if not self.optimizer_on_host:
            count = self.largest_layer_parameters if self.zero_init else self.parameters
            return count * loaded * self.buffer_factor
        kept = (18 if self.parameters_on_host else 16) / self.nodes
        return (
            self.parameters * (kept if self.zero_init else max(loaded, kept)) * self.buffer_factor
        )
