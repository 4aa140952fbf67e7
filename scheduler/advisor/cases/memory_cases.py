"""Cases of memory: states, activations, loaded weights, caches. Which one is asked for is told by
the inputs that are there."""

from dataclasses import replace

from scheduler.advisor.activation_memory import layer_bytes, stage_bytes
from scheduler.advisor.cases.inputs import Inputs
from scheduler.advisor.cases.shapes import (
    gpu_of,
    has_shape,
    parallelism_of,
    parameters_of,
    shape_of,
)
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.kv_cache import concurrency, token_bytes
from scheduler.advisor.models import shape_by_name
from scheduler.advisor.quantities import bytes_as, dtype_bytes
from scheduler.advisor.state_memory import (
    BF16_WITH_FP32_GRADIENTS,
    MIXED_ADAM,
    DeepSpeedMemory,
    ParameterBytes,
    regime,
    single_type,
)
from scheduler.advisor.training_memory import training_bytes
from scheduler.advisor.transformer import Recompute

DEEPSPEED_FIELDS = ("gpus_per_node", "total_gpus", "offload_optimizer", "offload_param", "mode")
LOADED = {"load_gib": 2**30, "load_mib": 2**20, "load_gib_fp32": 2**30, "load_mib_fp32": 2**20}


def memory(inputs: Inputs, unit: str) -> float:
    """Bytes on each GPU."""
    if any(name in inputs for name in LOADED) or "dtype" in inputs:
        return bytes_as(_loaded_bytes(inputs), unit)
    if "zero_stage" in inputs and any(name in inputs for name in DEEPSPEED_FIELDS):
        return bytes_as(_deepspeed_gpu_bytes(inputs), unit)
    if "zero_stage" in inputs:
        return bytes_as(_zero_bytes(inputs), unit)
    if inputs.flag("optimizer_sharding") or "system" in inputs:
        stage = 1 if inputs.flag("optimizer_sharding") else 0
        parallelism = replace(parallelism_of(inputs), zero_stage=stage)
        return bytes_as(training_bytes(shape_of(inputs), parallelism), unit)
    if "recompute" in inputs:
        return bytes_as(_activation_bytes(inputs), unit)
    if "bytes" in inputs and "layers" in inputs:
        parameters = 12 * inputs.count("layers") * inputs.count("hidden") ** 2
        return bytes_as(parameters * inputs.number("bytes") / inputs.count("tp", 1), unit)
    if has_shape(inputs):
        states = shape_of(inputs).layer_parameters
        split = inputs.count("tp", 1) * inputs.count("pp", 1)
        return bytes_as(states / split * BF16_WITH_FP32_GRADIENTS.total, unit)
    raise AdvisorError(
        "give zero_stage, a shape (layers, hidden, heads, seq), or a dtype with a model or load"
    )


def host_memory(inputs: Inputs, unit: str) -> float:
    """Bytes of each node's own memory, by DeepSpeed's estimator."""
    return bytes_as(_deepspeed(inputs).host_bytes, unit)


def memory_ratio(inputs: Inputs, unit: str) -> float:
    """Activations of a layer in percent of those without recompute and sequence parallelism."""
    modes = {
        "none": (Recompute.NONE, False),
        "seq": (Recompute.NONE, True),
        "sel": (Recompute.SELECTIVE, False),
        "seqsel": (Recompute.SELECTIVE, True),
        "full": (Recompute.FULL, False),
    }
    mode = inputs.word("mode")
    if mode not in modes:
        raise AdvisorError(f"mode must be one of {', '.join(modes)}")
    recompute, sequence_parallel = modes[mode]
    shape, parallelism = shape_of(inputs), parallelism_of(inputs)
    plain = replace(parallelism, sequence_parallel=False)
    asked = replace(parallelism, sequence_parallel=sequence_parallel)
    baseline = layer_bytes(shape, plain, Recompute.NONE)
    return 100 * layer_bytes(shape, asked, recompute) / baseline


def bytes_per_parameter(inputs: Inputs, unit: str) -> float:
    if "strategy" in inputs:
        return _strategy_bytes(inputs)
    words = inputs.word("kind").replace("-", " ").split()
    dtypes = [word for word in words if word in ("fp16", "bf16", "fp32")]
    if len(dtypes) == 1:
        dtypes *= 2
    if len(dtypes) != 2:
        raise AdvisorError("kind must name the types of parameters and gradients")
    stage = 1 if "distributed" in words or "dist" in words else 0
    size = inputs.count("dp") if stage else 1
    return regime(*dtypes).sharded(stage, size)


def kv_cache(inputs: Inputs, unit: str) -> float:
    """Bytes on each GPU, or how many full sequences a cache holds."""
    if "kv_cache_tokens" in inputs:
        return concurrency(inputs.number("kv_cache_tokens"), inputs.number("max_model_len"))
    hidden = inputs.count("hidden")
    heads = inputs.count("heads", 1)
    width = inputs.count("head_dim", max(hidden // heads, 1)) * inputs.count("kv_heads", heads)
    one = token_bytes(
        inputs.count("layers"), width, inputs.number("bytes", 2), inputs.count("tp", 1)
    )
    return bytes_as(one * inputs.count("tokens", 1) * inputs.count("batch", 1), unit)


def feasibility(inputs: Inputs, unit: str) -> bool:
    """Does it fit the GPU, or, of a time, does it need no more than the GPU's peak?"""
    if "step_s" in inputs:
        flops = 6 * parameters_of(inputs) * inputs.number("tokens_per_step")
        needed = flops / inputs.number("step_s") / inputs.count("gpus", 1)
        return needed <= inputs.number("peak_tflops") * 1e12
    capacity = gpu_of(inputs).memory_bytes
    if has_shape(inputs):
        states = shape_of(inputs).layer_parameters * BF16_WITH_FP32_GRADIENTS.total
        split = inputs.count("tp", 1) * inputs.count("pp", 1)
        return states / split + _activation_bytes(inputs) <= capacity
    if inputs.word("scheme", "") == "zero3":
        # Nobody trains such models without recomputing every layer.
        full = replace(parallelism_of(inputs), recompute=Recompute.FULL, zero_stage=3)
        return training_bytes(shape_of(inputs), full, regime=MIXED_ADAM) <= capacity
    return parameters_of(inputs) * MIXED_ADAM.total / inputs.count("gpus", 1) <= capacity


def _loaded_bytes(inputs: Inputs) -> float:
    """Weights as they are loaded, or four times as much to train them in 32 bits with Adam."""
    size = dtype_bytes(inputs.word("dtype", "fp32"))
    given = next((name for name in LOADED if name in inputs), None)
    if given is not None:
        loaded = inputs.number(given) * LOADED[given]
        if given.endswith("fp32"):
            loaded *= size / 4
    else:
        loaded = size * (
            parameters_of(inputs)
            if "params" in inputs
            else shape_by_name(inputs.word("model")).parameters
        )
    if "optimizer" not in inputs:
        return loaded
    return loaded / size * single_type(inputs.word("dtype"), inputs.word("optimizer")).total


def _zero_bytes(inputs: Inputs) -> float:
    each = ParameterBytes(
        inputs.number("bytes_weights", 2),
        inputs.number("bytes_grads", 2),
        inputs.number("bytes_optim", 12),
    )
    stage = int(inputs.number("zero_stage"))
    return parameters_of(inputs) * each.sharded(stage, inputs.count("dp", 1))


def _deepspeed_gpu_bytes(inputs: Inputs) -> float:
    if inputs.word("variant", "") == "docs_4P_plus_16P_over_N":
        # What DeepSpeed's documentation still says of stage 2.
        gpus = inputs.count("gpus_per_node") * inputs.count("nodes", 1)
        return parameters_of(inputs) * (4 + 16 / gpus)
    return _deepspeed(inputs).gpu_bytes


def _deepspeed(inputs: Inputs) -> DeepSpeedMemory:
    offload = {
        "none": (False, False),
        "offload_optimizer": (False, True),
        "offload_all": (True, True),
    }
    mode = inputs.word("mode", "none")
    if mode not in offload:
        raise AdvisorError(f"mode must be one of {', '.join(offload)}")
    on_host = offload[mode]
    if "mode" not in inputs:
        on_host = (
            inputs.word("offload_param", "none") != "none",
            inputs.word("offload_optimizer", "none") != "none",
        )
    stage = int(inputs.number("zero_stage"))
    if stage not in (2, 3):
        raise AdvisorError("DeepSpeed estimates the ZeRO stages 2 and 3")
    return DeepSpeedMemory(
        parameters=parameters_of(inputs),
        stage=stage,
        gpus_per_node=inputs.count("gpus_per_node", inputs.count("total_gpus", 1)),
        nodes=inputs.count("nodes", 1),
        largest_layer_parameters=inputs.number("largest_layer_params", 0),
        parameters_on_host=on_host[0],
        optimizer_on_host=on_host[1],
        zero_init="zero_init" not in inputs or inputs.flag("zero_init"),
        buffer_factor=inputs.number("buffer_factor", 1.5),
    )


def _activation_bytes(inputs: Inputs) -> float:
    return stage_bytes(shape_of(inputs), parallelism_of(inputs))


def _strategy_bytes(inputs: Inputs) -> float:
    """States of one type under a strategy of PyTorch, on each of n ranks."""
    each = single_type(inputs.word("dtype"), inputs.word("optimizer"))
    ranks, strategy = inputs.count("n"), inputs.word("strategy")
    stages = {"ddp": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "fsdp2": 3}
    if strategy == "tp":
        return each.total / ranks
    if strategy not in stages:
        raise AdvisorError(f"strategy must be one of {', '.join([*stages, 'tp'])}")
    return each.sharded(stages[strategy], ranks)
