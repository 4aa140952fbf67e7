"""What a task needs of the memory of each device, by part, each with its formula and source. Pure.

The numbers are those of `scheduler.advisor`; this module puts its parts in words.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.contract.message import Message
from portal.advice.question import AdviceQuestion, Task
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.fine_tuning import (
    DEFAULT_RANK,
    NF4_BYTES,
    REGIME_BYTES,
    TrainingFit,
    TuningRegime,
    training_fit,
)
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.inference import serving_fit
from scheduler.advisor.transformer import Recompute, Shape

ZERO = "ZeRO, arXiv 1910.02054, 3.1"
FSDP = "PyTorch FSDP, arXiv 2304.11277, 3.3"
LORA = "LoRA, arXiv 2106.09685, 4.1"
QLORA = "QLoRA, arXiv 2305.14314, 3"
KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198, 4"
PAGED = "PagedAttention, arXiv 2309.06180, 3"
VLLM = "vLLM, gpu_memory_utilization"
OWN = "Tessera, docs/advisor.md"
REGIMES = {
    Task.PRETRAINING: TuningRegime.ADAM,
    Task.FINE_TUNING: TuningRegime.ADAM,
    Task.LORA: TuningRegime.LORA,
    Task.QLORA: TuningRegime.QLORA,
}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the memory of one device."""

    name: str
    bytes: int
    formula: Message
    source: str


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """All of it."""

    parts: tuple[MemoryPart, ...]

    @property
    def total(self) -> int:
        return sum(part.bytes for part in self.parts)


def memory_need(question: AdviceQuestion, gpus: int, memory_bytes: int) -> MemoryNeed:
    """Of each of `gpus` devices of this size. Raises AdvisorError where the task is none for the
    model, or where the model does not divide by so many."""
    if question.task is Task.INFERENCE:
        return MemoryNeed(tuple(_serving_parts(question, gpus, memory_bytes)))
    fit = training_fit(
        question.shape,
        REGIMES[question.task],
        memory_bytes,
        question.batch,
        recompute=question.recompute,
        gpus=gpus,
    )
    return MemoryNeed(tuple(_training_parts(question, gpus, fit)))


def _serving_parts(question: AdviceQuestion, gpus: int, memory_bytes: int) -> Iterator[MemoryPart]:
    shape = question.shape
    if not isinstance(shape, Shape):
        raise AdvisorError("only a model that writes text is served here", "model")
    # Speeds are not asked here, and not known of every board.
    gpu = GpuFigures(memory_bytes, peak_flops=1, memory_bandwidth=1, bus_bandwidth=1)
    fit = serving_fit(shape, question.quantisation, gpu, gpus, question.concurrency)
    words = {"count": _count(shape.parameters), "format": str(question.quantisation), "gpus": gpus}
    formula = Message("%(count)s parameters in %(format)s", **words)
    if gpus > 1:
        formula = Message("%(count)s parameters in %(format)s, divided by %(gpus)s GPUs", **words)
    yield MemoryPart("weights", round(fit.weights), formula, question.source)
    each = {
        "sequences": f"{question.concurrency:,}",
        "tokens": f"{question.sequence:,}",
        "bytes": f"{fit.kv_cache / question.concurrency / question.sequence:,.0f}",
    }
    formula = Message("%(sequences)s sequences × %(tokens)s tokens × %(bytes)s bytes", **each)
    yield MemoryPart("kv_cache", round(fit.kv_cache), formula, PAGED)
    formula = Message("a tenth of the device, as vLLM leaves by default")
    yield MemoryPart("reserve", round(fit.reserve), formula, VLLM)


def _training_parts(question: AdviceQuestion, gpus: int, fit: TrainingFit) -> list[MemoryPart]:
    parts, trained = fit.parts, _count(fit.trained_parameters)
    regime = REGIME_BYTES[TuningRegime.ADAM]
    is_adapter = question.task in (Task.LORA, Task.QLORA)
    gradients, optimizer = (4, 8) if is_adapter else (regime.gradients, regime.optimizer)
    states = "%(bytes)s bytes for each of %(count)s trained parameters"
    shared = "%(bytes)s bytes for each of %(count)s trained parameters, divided by %(gpus)s GPUs"
    found = [_weights(question, gpus, fit)]
    for name, size, each in (
        ("gradients", parts.gradients, gradients),
        ("optimizer", parts.optimizer, optimizer),
    ):
        words = {"bytes": f"{each:g}", "count": trained, "gpus": gpus}
        formula = Message(shared if gpus > 1 else states, **words)
        found.append(MemoryPart(name, round(size), formula, LORA if is_adapter else ZERO))
    activations = _activations(question, gpus)
    found.append(MemoryPart("activations", round(parts.activations), activations, KORTHIKANTI))
    formula = Message("1 GiB and a twentieth of the device's memory")
    found.append(MemoryPart("reserve", round(parts.reserve), formula, OWN))
    return found


def _weights(question: AdviceQuestion, gpus: int, fit: TrainingFit) -> MemoryPart:
    words = {
        "count": _count(question.shape.parameters),
        "adapters": _count(fit.trained_parameters),
        "rank": DEFAULT_RANK,
    }
    formula, source = Message("2 bytes for each of %(count)s parameters", **words), ZERO
    if question.task is Task.LORA:
        source = LORA
        formula = Message(
            "2 bytes for each of %(count)s frozen parameters, 4 for each of %(adapters)s of the "
            "adapters (rank %(rank)s on every matrix)",
            **words,
        )
    elif question.task is Task.QLORA:
        source = QLORA
        formula = Message(
            "%(quantised)s bytes for each parameter of the layers and 2 for each other one, of "
            "%(count)s in all; 4 for each of %(adapters)s of the adapters (rank %(rank)s on every "
            "matrix)",
            **words,
            quantised=f"{NF4_BYTES:.3f}",
        )
    if gpus > 1:
        source = f"{source}; {FSDP}"
        formula = Message(
            "%(whole)s; divided by %(gpus)s GPUs, with two layers gathered at a time",
            whole=formula,
            gpus=gpus,
        )
    return MemoryPart("weights", round(fit.parts.weights), formula, source)


def _activations(question: AdviceQuestion, gpus: int) -> Message:
    each = -(-question.batch // gpus)
    if not isinstance(question.shape, Shape):
        return Message("what the layers keep of %(samples)s samples", samples=each)
    words = {
        "sequences": each,
        "tokens": f"{question.sequence:,}",
        "layers": question.shape.layers,
    }
    if question.recompute is Recompute.FULL:
        return Message(
            "of %(sequences)s × %(tokens)s tokens: the input of each of %(layers)s layers, one "
            "layer whole, and the logits; the rest is computed again",
            **words,
        )
    return Message(
        "of %(sequences)s × %(tokens)s tokens: what each of %(layers)s layers keeps for the "
        "backward pass, and the logits",
        **words,
    )


def _count(parameters: float) -> str:
    """ "8.03×10⁹", "41.9×10⁶"."""
    if parameters >= 1e9:
        return f"{parameters / 1e9:,.2f}×10⁹"
    return f"{parameters / 1e6:,.1f}×10⁶"
