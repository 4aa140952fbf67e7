"""Time and cost of an advice in the reader's words: rows of tables, and how each number is made."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.units import UNITS_PER_GPU
from portal.advice.question import AdviceQuestion, Task
from portal.advice.selectors import Advice
from portal.advice.training import TrainingRun
from portal.prices.price_table import HourPrice, PriceSource
from portal.web.advice.amounts import digits, money
from portal.web.advice.device_words import device_words
from portal.web.wording.labels import duration
from scheduler.advisor.cost import SYSTEM_FACTOR
from scheduler.advisor.gpus import GpuFigures
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import MEMORY_EFFICIENCY

DASH = "–"
STEP_LABELS = {
    "compute": gettext_lazy("Computing"),
    "recompute": gettext_lazy("Activations computed again"),
    "messages": gettext_lazy("Messages"),
    "bubble": gettext_lazy("Bubble of the pipeline"),
    "gradients": gettext_lazy("Exchange of weights and gradients"),
    "optimizer": gettext_lazy("Optimizer"),
}
STEP_SOURCES = {
    "compute": "Narayanan et al., SC21, arXiv 2104.04473, 5.1; LoRA, arXiv 2106.09685, 4.2",
    "recompute": "Korthikanti et al., arXiv 2205.05198, 5",
    "gradients": "PyTorch FSDP, arXiv 2304.11277, 3.3; ZeRO, arXiv 1910.02054, 7",
    "optimizer": "Tessera, docs/advisor.md",
}


@dataclass(frozen=True, slots=True)
class CostRow:
    """A line of a table: the device or the way, and a cell for each column."""

    name: str
    cells: tuple[str, ...]
    note: str = ""
    """Of a slice its profile; of several GPUs how they divide the training, and what makes that
    slower than the best way."""


@dataclass(frozen=True, slots=True)
class FormulaRow:
    """A number of the best device, with how it is calculated."""

    label: str
    value: str
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class CostSection:
    """The card about time and cost."""

    columns: tuple[str, ...]
    rows: tuple[CostRow, ...]
    ways: tuple[CostRow, ...]
    """Of a training: what else could be done with the best kind of device."""
    formulas: tuple[FormulaRow, ...]
    formulas_of: str
    notes: tuple[str, ...]
    """What is missing for the rest."""


def cost_section(advice: Advice) -> CostSection | None:
    return _training(advice) if advice.question.is_training else _serving(advice)


def _training(advice: Advice) -> CostSection | None:
    runs = [run for each in advice.devices if each.is_usable and (run := advice.run(each.fit))]
    if not runs:
        return None
    currency = advice.prices.currency
    best = advice.run(advice.best.fit) if advice.best else None
    has_end = bool(runs[0].steps)
    columns = [_("A step"), _("Tokens a second")]
    if has_end:
        columns += [_("All steps"), _("GPU-hours"), _("Energy"), _("Cost")]
    notes = []
    if not has_end:
        notes.append(_("To see hours and cost, say how many tokens or steps the training takes."))
    elif any(run.cost is None for run in runs):
        notes.append(_("Admins have set no price for devices whose cost is a dash."))
    return CostSection(
        columns=tuple(columns),
        rows=tuple(_run_row(run, currency, has_end) for run in runs),
        ways=tuple(_run_row(run, currency, has_end) for run in advice.ways()),
        formulas=tuple(_run_formulas(advice, best)) if best else (),
        formulas_of=device_words(best.fit) if best else "",
        notes=tuple(notes),
    )


def _run_row(run: TrainingRun, currency: str, has_end: bool) -> CostRow:
    cells = [f"{digits(run.parts.seconds)} s", f"{run.tokens_per_second:,.0f}"]
    if has_end:
        cells += [
            duration(run.seconds),
            digits(run.gpu_hours),
            f"{digits(run.system_kwh)} kWh",
            DASH if run.cost is None else money(run.cost, currency),
        ]
    profile = run.fit.device.profile
    note = profile.name if profile else way_words(run.parallelism)
    if run.slower_part:
        note += ". " + _("Slower by: %(part)s") % {"part": _(run.slower_part)}
    return CostRow(device_words(run.fit), tuple(cells), note)


def way_words(division: Parallelism) -> str:
    """ "data 8, FSDP, micro-batch 2", "tensor 2 × data 4, ZeRO 1, micro-batch 1"; empty for one
    GPU."""
    if division.gpus == 1:
        return ""
    sizes = (
        (_("tensor %(n)s"), division.tensor_parallel),
        (_("pipeline %(n)s"), division.pipeline_parallel),
        (_("context %(n)s"), division.context_parallel),
        (_("expert %(n)s"), division.expert_parallel),
        (_("data %(n)s"), division.data_parallel),
    )
    words = [text % {"n": size} for text, size in sizes if size > 1]
    method = "FSDP" if division.zero_stage == 3 else f"ZeRO {division.zero_stage}"
    micro = _("micro-batch %(n)s") % {"n": division.micro_batch}
    return ", ".join([" × ".join(words), method, micro])


def _run_formulas(advice: Advice, run: TrainingRun) -> Iterator[FormulaRow]:
    figures, question = run.fit.device.figures, advice.question
    if figures is None:
        return
    formulas = _step_formulas(question, run, figures)
    for name, seconds in asdict(run.parts).items():
        if seconds and name in formulas:
            source = STEP_SOURCES[name]
            value = f"{digits(seconds)} s"
            yield FormulaRow(str(STEP_LABELS[name]), value, formulas[name], source)
    if not run.steps:
        return
    hours = {
        "hours": digits(run.device_hours),
        "devices": run.fit.gpus,
        "time": duration(run.seconds),
        "share": f"{run.fit.device.units / UNITS_PER_GPU:.3g}",
        "watts": f"{figures.power_watts:,.0f}",
        "factor": f"{SYSTEM_FACTOR:.2f}",
        "steps": f"{run.steps:,}",
        "step": digits(run.parts.seconds),
        "batch": run.parallelism.global_batch,
        "sequence": f"{question.sequence:,}",
    }
    formula = _("%(steps)s steps of %(batch)s × %(sequence)s tokens × %(step)s s") % hours
    yield FormulaRow(_("All steps"), duration(run.seconds), formula, "")
    formula = _("%(devices)s × %(time)s; each counts %(share)s of a GPU, as usage counts it")
    yield FormulaRow(_("GPU-hours"), digits(run.gpu_hours), formula % hours, "")
    formula = _(
        "%(hours)s hours of a device × at most %(watts)s W; × %(factor)s with its server, as of "
        "a DGX A100"
    )
    source = _("Data sheets of the board and of the DGX A100")
    yield FormulaRow(_("Energy"), f"{digits(run.system_kwh)} kWh", formula % hours, source)
    price = advice.price(run.fit)
    if price and run.cost is not None:
        currency = advice.prices.currency
        words = {"hours": hours["hours"], "price": money(float(price.amount), currency)}
        formula = _("%(hours)s hours of a device × %(price)s") % words
        yield FormulaRow(_("Cost"), money(run.cost, currency), formula, price_source(price))


def price_source(price: HourPrice) -> str:
    if price.source is PriceSource.ADMIN:
        return _("Price set by an admin")
    return _("The slice's share of the price that an admin set for the GPU")


def _step_formulas(
    question: AdviceQuestion, run: TrainingRun, figures: GpuFigures
) -> dict[str, str]:
    words = {
        "tokens": f"{run.parallelism.micro_batch * question.sequence:,}",
        "rate": f"{figures.peak_flops * figures.matrix_efficiency / 1e12:,.0f}",
        "memory": f"{figures.memory_bandwidth * MEMORY_EFFICIENCY / 1e9:,.0f}",
        "bus": f"{figures.bus_bandwidth / 1e9:,.0f}",
        "network": f"{figures.network_bandwidth / 1e9:,.0f}",
    }
    compute = _(
        "2 operations for each parameter and each of %(tokens)s tokens forward and 4 backward, "
        "with attention, at %(rate)s TFLOP/s; what lies between matrices at %(memory)s GB/s"
    )
    if question.task is Task.LORA:
        compute = _(
            "2 operations for each parameter and each of %(tokens)s tokens forward and 2 backward, "
            "as frozen weights get no gradients, with attention, at %(rate)s TFLOP/s; what lies "
            "between matrices at %(memory)s GB/s"
        )
    elif question.task is Task.QLORA:
        compute = _(
            "2 operations for each parameter and each of %(tokens)s tokens forward and 2 backward, "
            "as frozen weights get no gradients, with attention, at %(rate)s TFLOP/s; what lies "
            "between matrices, and weights written out in 16 bits, at %(memory)s GB/s"
        )
    return {
        "compute": compute % words,
        "recompute": _("The forward pass of every layer once more"),
        "gradients": _(
            "What computing does not hide of gathering weights twice and scattering gradients, at "
            "%(bus)s GB/s in a node and %(network)s GB/s between nodes"
        )
        % words,
        "optimizer": _("40 bytes for each trained parameter that the GPU has, at %(memory)s GB/s")
        % words,
    }


def _serving(advice: Advice) -> CostSection | None:
    currency = advice.prices.currency
    rows, missing = [], False
    for each in advice.devices:
        speed = advice.speed(each.fit) if each.is_usable else None
        if speed is None:
            continue
        cost = speed.million_tokens_cost
        missing = missing or cost is None
        cells = (
            f"{speed.tokens_per_second:,.0f}",
            digits(speed.tokens_per_second_each),
            f"{digits(speed.prefill_seconds)} s",
            f"{speed.max_concurrency:,}",
            DASH if cost is None else money(cost, currency),
        )
        profile = each.fit.device.profile
        rows.append(CostRow(device_words(each.fit), cells, profile.name if profile else ""))
    if not rows:
        return None
    columns = (
        _("Tokens a second"),
        _("Of each sequence"),
        _("A full prompt"),
        _("Sequences at most"),
        _("Cost of a million tokens"),
    )
    notes = (_("Admins have set no price for devices whose cost is a dash."),) if missing else ()
    return CostSection(
        columns=columns,
        rows=tuple(rows),
        ways=(),
        formulas=tuple(_serving_formulas(advice)),
        formulas_of=device_words(advice.best.fit) if advice.best else "",
        notes=notes,
    )


def _serving_formulas(advice: Advice) -> Iterator[FormulaRow]:
    best = advice.best
    speed = advice.speed(best.fit) if best else None
    if best is None or speed is None:
        return
    source = "Pope et al., arXiv 2211.05102, 2 and 3"
    formula = _(
        "one token of each sequence in a step, which takes the longer of reading all weights and "
        "caches once and of computing with them"
    )
    value = f"{speed.tokens_per_second:,.0f}"
    yield FormulaRow(_("Tokens a second"), value, formula, source)
    formula = _("2 operations for each parameter and token of the prompt, and attention")
    yield FormulaRow(_("A full prompt"), f"{digits(speed.prefill_seconds)} s", formula, source)
    price, currency = advice.price(best.fit), advice.prices.currency
    if price and speed.million_tokens_cost is not None:
        words = {
            "devices": best.fit.gpus,
            "price": money(float(price.amount), currency),
            "tokens": value,
        }
        formula = _("%(devices)s × %(price)s an hour / (%(tokens)s tokens × 3,600 s) × 10⁶") % words
        cost = money(speed.million_tokens_cost, currency)
        yield FormulaRow(_("Cost of a million tokens"), cost, formula, price_source(price))
