"""Model FLOPs utilisation of a training beside what the advisor expects of its GPUs. Pure.

Measured are the tokens a second that the job reports. They are believed on its own page only, and a
number that no GPU could reach is called impossible there.
"""

from dataclasses import dataclass
from functools import lru_cache

from agents.contract.message import Message
from portal.advice.training_command import TrainingCommand
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.search import MOST_BATCH, Candidate, search
from scheduler.advisor.transformer import Shape
from scheduler.advisor.utilisation import token_flops, utilisation_percent

# A search over more GPUs takes longer than a page may.
MOST_SEARCHED_GPUS = 1_024
# More is a mistake of what was counted.
WHOLE = 100.0


@dataclass(frozen=True, slots=True)
class ReportedSpeed:
    """What a job says of its training, over all of its GPUs; 0 where it says nothing."""

    tokens_per_second: float
    token_flops: float = 0.0
    """FLOPs of the model for each token, forward and backward."""
    tokens_per_step: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainingDevices:
    """The devices of an attempt, where all are alike."""

    name: str
    """ "H100", or "H100 3g.40gb"."""
    count: int
    figures: GpuFigures | None
    """None where no source gives them."""


@dataclass(frozen=True, slots=True)
class ExpectedSpeed:
    """Of the best division of the training over the same devices."""

    tokens_per_second: float
    percent: float
    batch: int
    """Sequences of a step."""
    division: str
    """ "TP 2, PP 1, CP 1, DP 4, ZeRO 1"."""


@dataclass(frozen=True, slots=True)
class ModelUtilisation:
    """Measured beside expected; what is not known says why."""

    tokens_per_second: float
    flops_each: float
    """0 if unknown."""
    flops_source: Message | None
    devices: str
    """ "8 × H100"."""
    peak_flops: float
    """Of all devices in 16 bits; 0 if unknown."""
    percent: float | None
    problem: Message | None
    """Why there is no percentage, or why it cannot be true."""
    expected: ExpectedSpeed | None
    no_expectation: Message | None
    reachable_percent: float
    """Of the peak that large matrix products reach on this board; 0 if unknown."""


def model_utilisation(
    reported: ReportedSpeed, command: TrainingCommand | None, devices: TrainingDevices | None
) -> ModelUtilisation:
    """`devices`: None where they are of several kinds, or shares, which have no peak."""
    flops, source = _token_flops(reported, command)
    figures = devices.figures if devices else None
    peak = devices.count * figures.peak_flops if devices and figures else 0.0
    problem = _unknown(flops, devices)
    percent = None if problem else _percent(reported.tokens_per_second, flops, peak)
    if problem is None and percent is None:
        problem = Message(
            "What it reports is more than its GPUs can compute: count the tokens of the whole job "
            "once, and only those that it trains on"
        )
    expected, no_expectation = _expected(reported, command, devices)
    return ModelUtilisation(
        tokens_per_second=reported.tokens_per_second,
        flops_each=flops,
        flops_source=source,
        devices=f"{devices.count:,} × {devices.name}" if devices else "",
        peak_flops=peak,
        percent=percent,
        problem=problem,
        expected=expected,
        no_expectation=no_expectation,
        reachable_percent=100 * figures.matrix_efficiency if figures else 0.0,
    )


def _percent(tokens_per_second: float, flops_each: float, peak_flops: float) -> float | None:
    """None for what no GPU could reach."""
    try:
        percent = utilisation_percent(tokens_per_second, flops_each, peak_flops)
    except AdvisorError:
        return None
    return percent if percent <= WHOLE else None


def _token_flops(
    reported: ReportedSpeed, command: TrainingCommand | None
) -> tuple[float, Message | None]:
    """What the job reports comes first: it knows its own model."""
    if reported.token_flops > 0:
        return reported.token_flops, Message("reported by the job as model_flops_per_token")
    if command is None:
        return 0.0, None
    words = {"model": command.model, "tokens": f"{command.shape.sequence:,}"}
    sentence = "of %(model)s in sequences of %(tokens)s tokens, as its command says"
    if command.trains_adapters:
        sentence = (
            "of %(model)s with adapters in sequences of %(tokens)s tokens, as its command says"
        )
    flops = token_flops(command.shape, trains_adapters=command.trains_adapters)
    return flops, Message(sentence, **words)


def _unknown(flops: float, devices: TrainingDevices | None) -> Message | None:
    if not flops:
        return Message(
            "What a token costs is not known. Report it as model_flops_per_token, or give a model "
            "of the advisor's catalogue and the length of sequences in the command: "
            "--model llama3-8b --sequence-length 4096"
        )
    if devices is None:
        return Message(
            "Its devices are of several kinds, or shares of a GPU: there is no peak to compare with"
        )
    if devices.figures is None:
        return Message("No source gives the peak of %(device)s", device=devices.name)
    return None


def _expected(
    reported: ReportedSpeed, command: TrainingCommand | None, devices: TrainingDevices | None
) -> tuple[ExpectedSpeed | None, Message | None]:
    if command is None or devices is None or devices.figures is None:
        return None, Message(
            "The advisor needs the model, the length of its sequences and GPUs that it knows"
        )
    if command.trains_adapters:
        return None, Message("The advisor has no times for trainings of adapters")
    batch = round(reported.tokens_per_step / command.shape.sequence) or command.batch
    if not 0 < batch <= MOST_BATCH:
        return None, Message(
            "The advisor needs the tokens of a step: report tokens_per_step, or give "
            "--global-batch-size in the command"
        )
    if devices.count > MOST_SEARCHED_GPUS:
        return None, Message("For so many GPUs, run python -m scheduler.advisor search")
    best = best_division(command.shape, devices.figures, devices.count, batch)
    if best is None:
        return None, Message(
            "With %(batch)s sequences a step, the advisor finds no way that fits its memory",
            batch=f"{batch:,}",
        )
    tokens = best.parallelism.global_batch * command.shape.sequence / best.parts.seconds
    peak = devices.count * devices.figures.peak_flops
    percent = utilisation_percent(tokens, token_flops(command.shape), peak)
    return ExpectedSpeed(tokens, percent, batch, _division(best)), None


@lru_cache(maxsize=256)
def best_division(
    shape: Shape, figures: GpuFigures, gpus: int, global_batch: int
) -> Candidate | None:
    """The fastest that fits. A page is read often, and a large search takes a third of a second."""
    try:
        return next(iter(search(shape, figures, gpus, global_batch)), None)
    except AdvisorError:
        return None


def _division(best: Candidate) -> str:
    p = best.parallelism
    words = [f"TP {p.tensor_parallel}", f"PP {p.pipeline_parallel}", f"CP {p.context_parallel}"]
    words += [f"DP {p.data_parallel}", f"ZeRO {p.zero_stage}"]
    return ", ".join(words)
