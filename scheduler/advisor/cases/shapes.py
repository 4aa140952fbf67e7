"""The model, its parallelism and its GPU, from the inputs of a case."""

import math

from scheduler.advisor.cases.inputs import Inputs
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.gpus import GpuFigures, gpu_by_name
from scheduler.advisor.models import shape_by_name, shape_by_parameters
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import CURRENT, MEGATRON_2021, Software
from scheduler.advisor.transformer import Recompute, Shape


def has_shape(inputs: Inputs) -> bool:
    return "hidden" in inputs and "layers" in inputs and "seq" in inputs


def shape_of(inputs: Inputs) -> Shape:
    if has_shape(inputs):
        return Shape(
            layers=inputs.count("layers"),
            hidden=inputs.count("hidden"),
            heads=inputs.count("heads", 1),
            sequence=inputs.count("seq"),
            vocabulary=int(inputs.number("vocab", 0)),
        )
    if "model" in inputs:
        return shape_by_name(inputs.word("model"))
    return shape_by_parameters(parameters_of(inputs))


def parameters_of(inputs: Inputs) -> float:
    if "params_b" in inputs:
        return inputs.number("params_b") * 1e9
    return inputs.number("params")


def recompute_of(inputs: Inputs) -> Recompute:
    word = inputs.word("recompute", "none")
    try:
        return Recompute(word)
    except ValueError:
        known = ", ".join(Recompute)
        raise AdvisorError(f"recompute must be one of {known}, not {word!r}") from None


def parallelism_of(inputs: Inputs) -> Parallelism:
    sizes = [inputs.count(name, 1) for name in ("tp", "pp", "cp")]
    gpus = inputs.count("gpus", math.prod(sizes) * inputs.count("dp", 1))
    micro_batch = inputs.count("micro_batch", 1)
    replicas = max(1, gpus // math.prod(sizes))
    return Parallelism(
        gpus=gpus,
        tensor_parallel=sizes[0],
        pipeline_parallel=sizes[1],
        context_parallel=sizes[2],
        global_batch=inputs.count("global_batch", replicas * micro_batch),
        micro_batch=micro_batch,
        virtual_stages=inputs.count("virtual_stages", 1),
        recompute=recompute_of(inputs),
        sequence_parallel=inputs.flag("sequence_parallel") or software_of(inputs) is CURRENT,
    )


def software_of(inputs: Inputs) -> Software:
    """Publications that say what they recompute are from before flash attention; a case that
    leaves it open is run by current software."""
    before = "recompute" in inputs or inputs.word("system", "").startswith("a100")
    return MEGATRON_2021 if before else CURRENT


def gpu_of(inputs: Inputs) -> GpuFigures:
    return gpu_by_name(inputs.word("gpu" if "gpu" in inputs else "system", "A100-80GB"))
