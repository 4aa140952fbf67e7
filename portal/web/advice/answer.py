"""An advice in the reader's words."""

from dataclasses import dataclass

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.advice.fits import DeviceFit, gpus_enough
from portal.advice.question import OWN_MODEL, AdviceQuestion
from portal.advice.requests import form_query, network_test_fields
from portal.advice.selectors import Advice, DeviceAdvice
from portal.advice.speed import REFERENCE
from portal.web.advice.amounts import digits, gib
from portal.web.advice.costs import CostSection, cost_section
from portal.web.advice.device_words import device_name, device_words
from portal.web.advice.form import TASK_LABELS
from portal.web.request.card_starts import CardStart, card_start
from portal.web.wording.messages import message_text
from scheduler.advisor.inference import Bottleneck

PART_LABELS = {
    "weights": gettext_lazy("Weights"),
    "gradients": gettext_lazy("Gradients"),
    "optimizer": gettext_lazy("Optimizer states"),
    "activations": gettext_lazy("Activations"),
    "kv_cache": gettext_lazy("Keys and values of the sequences"),
    "reserve": gettext_lazy("Kept for CUDA, libraries and fragments"),
}


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of the memory."""

    label: str
    size: str
    formula: str
    source: str
    width: int
    """Of its bar, of 200 for the whole device."""


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """One kind of device in the table."""

    name: str
    profile: str
    count: str
    need: str
    memory: str
    verdict: CardStart
    """Whether it fits, and when it could start."""
    address: str
    """Of the request form filled in; empty if it cannot be requested."""


@dataclass(frozen=True, slots=True)
class AdviceAnswer:
    """The answer's part of the page."""

    cls: str
    icon: str
    title: str
    sentence: str
    question: str
    """What was asked, in a line."""
    speed: str
    """How fast the best one serves the model; empty where that is not known."""
    speed_reference: str
    parts: tuple[PartRow, ...]
    total: str
    parts_of: str
    """The device whose parts they are."""
    costs: CostSection | None
    """Time and cost; None where no device holds it, or no speeds are known."""
    lines: tuple[DeviceLine, ...]
    best: DeviceLine | None
    network_test: str
    """Address of a request that measures the network of the best one's GPUs; empty for one GPU."""


def advice_answer(advice: Advice) -> AdviceAnswer:
    lines = [_line(advice.project, each) for each in advice.devices]
    best = lines[0] if advice.best else None
    shown = advice.shown
    cls, icon, title, sentence = _headline(advice)
    return AdviceAnswer(
        cls=cls,
        icon=icon,
        title=title,
        sentence=sentence,
        question=_question_line(advice.question),
        speed=_speed_line(advice),
        speed_reference=REFERENCE,
        parts=_parts(shown.fit) if shown else (),
        total=gib(shown.fit.need.total) if shown else "",
        parts_of=device_words(shown.fit) if shown else "",
        costs=cost_section(advice),
        lines=tuple(lines),
        best=best,
        network_test=_network_test(advice),
    )


def _headline(advice: Advice) -> tuple[str, str, str, str]:
    best, nearest = advice.best, advice.shown
    if best is not None:
        words = {"device": device_words(best.fit)}
        title = _("The smallest that fits: %(device)s") % words
        return "ok", "check", title, _use_sentence(best.fit)
    if nearest is None:
        sentence = _("No node has reported a GPU yet, so there is nothing to compare with.")
        return "wait", "clock", _("No GPU is known here"), sentence
    if nearest.fit.fits:
        sentence = message_text(nearest.obstacle) if nearest.obstacle else ""
        return "warn", "alert", _("It would fit, but not within your project's limits"), sentence
    words = {"device": device_words(nearest.fit), "missing": gib(nearest.fit.missing_bytes)}
    sentence = _("The nearest is %(device)s, where %(missing)s are missing on each GPU.") % words
    if gpus := gpus_enough(advice.question, nearest.fit.device):
        enough = _("It would take %(gpus)s × %(model)s.")
        sentence += " " + enough % {"gpus": f"{gpus:,}", "model": nearest.fit.device.model}
    return "bad", "x", _("No device of this cluster holds it"), sentence


def _use_sentence(fit: DeviceFit) -> str:
    words = {"need": gib(fit.need.total), "memory": gib(fit.device.memory_bytes)}
    if fit.gpus == 1:
        return _("It needs %(need)s of %(memory)s.") % words
    return _("Each needs %(need)s of %(memory)s.") % words


def _question_line(question: AdviceQuestion) -> str:
    words = {
        "model": question.model if question.model != OWN_MODEL else _("your model"),
        "billions": f"{question.shape.parameters / 1e9:,.2f}",
        "millions": f"{question.shape.parameters / 1e6:,.1f}",
        "task": str(TASK_LABELS[question.task]),
        "sequence": f"{question.sequence:,}",
    }
    n = question.batch if question.is_training else question.concurrency
    if not question.is_training:
        text = ngettext(
            "%(model)s (%(billions)s billion parameters), %(task)s: %(n)s sequence at a time, up "
            "to %(sequence)s tokens",
            "%(model)s (%(billions)s billion parameters), %(task)s: %(n)s sequences at a time, up "
            "to %(sequence)s tokens each",
            n,
        )
    elif question.sequence:
        text = ngettext(
            "%(model)s (%(billions)s billion parameters), %(task)s: a batch of %(n)s sequence of "
            "%(sequence)s tokens",
            "%(model)s (%(billions)s billion parameters), %(task)s: a batch of %(n)s sequences of "
            "%(sequence)s tokens",
            n,
        )
    else:
        text = ngettext(
            "%(model)s (%(millions)s million parameters), %(task)s: a batch of %(n)s sample",
            "%(model)s (%(millions)s million parameters), %(task)s: a batch of %(n)s samples",
            n,
        )
    return text % {**words, "n": f"{n:,}"}


def _speed_line(advice: Advice) -> str:
    speed = advice.speed(advice.best.fit) if advice.best else None
    if speed is None:
        return ""
    words = {
        "tokens": f"{speed.tokens_per_second:,.0f}",
        "each": f"{speed.tokens_per_second_each:,.0f}",
        "seconds": digits(speed.prefill_seconds),
        "most": f"{speed.max_concurrency:,}",
    }
    if speed.limits is Bottleneck.MEMORY_BANDWIDTH:
        text = _(
            "About %(tokens)s tokens a second together, %(each)s for each sequence, limited by "
            "memory bandwidth; %(seconds)s s to read a full prompt. At most %(most)s such "
            "sequences fit."
        )
    else:
        text = _(
            "About %(tokens)s tokens a second together, %(each)s for each sequence, limited by "
            "compute; %(seconds)s s to read a full prompt. At most %(most)s such sequences fit."
        )
    return text % words


def _parts(fit: DeviceFit) -> tuple[PartRow, ...]:
    whole = max(fit.device.memory_bytes, fit.need.total)
    return tuple(
        PartRow(
            label=str(PART_LABELS[part.name]),
            size=gib(part.bytes),
            formula=message_text(part.formula),
            source=part.source,
            width=max(1, round(200 * part.bytes / whole)),
        )
        for part in fit.need.parts
    )


def _network_test(advice: Advice) -> str:
    best = advice.best
    if best is None or best.fit.gpus < 2 or not advice.project:
        return ""
    fields = network_test_fields(best.fit, settings.PLATFORM.nccl_tests_image)
    return f"{reverse('web:request')}?{form_query(advice.project, fields)}"


def _line(project: str, advice: DeviceAdvice) -> DeviceLine:
    fit = advice.fit
    address = ""
    if advice.is_usable and project:
        address = f"{reverse('web:request')}?{form_query(project, advice.fields)}"
    return DeviceLine(
        name=device_name(fit.device),
        profile=fit.device.profile.name if fit.device.profile else "",
        count=_count(fit),
        need=gib(fit.need.total),
        memory=gib(fit.device.memory_bytes),
        verdict=_verdict(advice),
        address=address,
    )


def _count(fit: DeviceFit) -> str:
    each = fit.gpus // fit.nodes
    if fit.nodes == 1:
        return f"{each}"
    return _("%(nodes)s nodes × %(gpus)s") % {"nodes": fit.nodes, "gpus": each}


def _verdict(advice: DeviceAdvice) -> CardStart:
    fit = advice.fit
    if not fit.fits:
        text = _("%(missing)s too small") % {"missing": gib(fit.missing_bytes)}
        return CardStart("bad", "x", text)
    if advice.obstacle is not None:
        return CardStart("warn", "alert", message_text(advice.obstacle))
    if advice.start is not None:
        return card_start(advice.start)
    free = fit.device.count.available
    return CardStart("ok", "check", _("fits; %(free)s free") % {"free": f"{free:,}"})
