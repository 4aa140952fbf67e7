"""How long a training takes and what it costs on devices that hold it. Pure."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from agents.contract.units import UNITS_PER_GPU
from portal.advice.fits import DeviceFit
from portal.advice.memory import REGIMES, memory_need
from portal.advice.question import AdviceQuestion, Task
from portal.prices.price_table import HourPrice
from scheduler.advisor.cost import run_cost
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.search import Candidate, search, slower_part
from scheduler.advisor.step_time import StepParts
from scheduler.advisor.transformer import Shape
from scheduler.advisor.tuning_time import tuning_step

REFERENCE = "Narayanan et al., SC21, arXiv 2104.04473; Tessera, docs/advisor.md"
# Of the ways that `search` finds for the devices of an advice, and of larger numbers of them.
MAX_FASTER, MAX_LARGER = 3, 3
# For more GPUs the search takes too long for a page.
MAX_SEARCHED_GPUS = 256
WHOLE_TRAINING = (Task.PRETRAINING, Task.FINE_TUNING)


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training on so many devices, divided in one way."""

    fit: DeviceFit
    parallelism: Parallelism
    parts: StepParts
    tokens_per_second: float
    steps: int
    """Of the whole training; 0 where the question does not say how long it is, and then what
    follows is 0, too."""
    device_hours: float
    gpu_kwh: float
    """Of the GPUs at the limit of their boards."""
    system_kwh: float
    """With the servers around them."""
    cost: float | None
    """In the currency of the prices; None where the device has no price, or `steps` are 0."""
    slower_part: str = ""
    """What makes it slower than the fastest way on the same devices."""

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return self.steps * self.parts.seconds

    @property
    def gpu_hours(self) -> float:
        """As usage counts them: a slice is its share of a GPU."""
        return self.device_hours * self.fit.device.units / UNITS_PER_GPU


def training_run(
    question: AdviceQuestion, fit: DeviceFit, price: HourPrice | None = None
) -> TrainingRun | None:
    """Divided as the memory of the fit is: by FSDP over all devices. `price`: of one device. None
    where it does not fit or is no training, for a board without figures, and for what is no
    transformer."""
    figures = fit.device.figures
    if not question.is_training or not fit.fits or figures is None:
        return None
    try:
        step = tuning_step(
            question.shape,
            REGIMES[question.task],
            figures,
            question.batch,
            question.recompute,
            fit.gpus,
        )
    except AdvisorError:
        return None
    return _run(question, fit, step.parallelism, step.parts, price)


def training_ways(
    question: AdviceQuestion, fit: DeviceFit, price: HourPrice | None = None
) -> list[TrainingRun]:
    """What else could be done with this kind of device: the fastest ways to divide the training
    over as many, and FSDP over more of them."""
    runs = [*_divisions(question, fit, price)]
    for larger in _larger_fits(question, fit):
        run = training_run(question, larger, price)
        if run:
            runs.append(run)
    return runs


def _divisions(
    question: AdviceQuestion, fit: DeviceFit, price: HourPrice | None
) -> Iterator[TrainingRun]:
    """The search is for trainings of all weights with Adam. Of equally fast ways that with the
    least memory."""
    figures, shape = fit.device.figures, question.shape
    is_searched = question.task in WHOLE_TRAINING and 1 < fit.gpus <= MAX_SEARCHED_GPUS
    if not (is_searched and fit.fits and figures and isinstance(shape, Shape)):
        return
    found = search(shape, figures, fit.gpus, max(question.batch, fit.gpus))
    by_time: dict[float, Candidate] = {}
    for way in found:
        by_time.setdefault(way.parts.seconds, way)
    for way in list(by_time.values())[:MAX_FASTER]:
        slower = slower_part(way.parts, found[0].parts)
        yield _run(question, fit, way.parallelism, way.parts, price, slower)


def _larger_fits(question: AdviceQuestion, fit: DeviceFit) -> Iterator[DeviceFit]:
    """More of the same device; each has one sequence at least, so that more than a batch has are of
    no use."""
    count = 0
    for nodes, each in fit.device.gang_sizes():
        gpus = nodes * each
        if not fit.fits or gpus <= fit.gpus or gpus > question.batch or count >= MAX_LARGER:
            continue
        with suppress(AdvisorError):
            need = memory_need(question, gpus, fit.device.memory_bytes)
            yield DeviceFit(fit.device, nodes, gpus, need)
            count += 1


def _run(
    question: AdviceQuestion,
    fit: DeviceFit,
    parallelism: Parallelism,
    parts: StepParts,
    price: HourPrice | None,
    slower: str = "",
) -> TrainingRun:
    tokens = parallelism.global_batch * question.sequence
    steps = question.steps or (math.ceil(question.tokens / tokens) if question.tokens else 0)
    figures = fit.device.figures
    # A division may leave devices idle; they are held all the same.
    hours = fit.gpus * steps * parts.seconds / 3_600
    cost = run_cost(figures, fit.gpus, steps * parts.seconds) if figures and steps else None
    return TrainingRun(
        fit=fit,
        parallelism=parallelism,
        parts=parts,
        tokens_per_second=tokens / parts.seconds,
        steps=steps,
        device_hours=hours,
        gpu_kwh=cost.gpu_kwh if cost else 0.0,
        system_kwh=cost.system_kwh if cost else 0.0,
        cost=hours * float(price.amount) if price and steps else None,
        slower_part=slower,
    )
