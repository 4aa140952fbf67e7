"""The evidence of a reason: its numbers, each with a label and a unit."""

import re
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.moments import write_moment
from agents.contract.units import as_gpus
from portal.web.wording.labels import duration
from scheduler.core.model.message_templates import dependency_label
from scheduler.core.request.quantities import cpu_words, memory_words

UNIT_SECONDS_PER_HOUR = 3_600
LABELS: dict[str, str | Promise] = {
    "device": gettext_lazy("Device"),
    "combination": gettext_lazy("Combination"),
    "needed": gettext_lazy("Needed"),
    "free": gettext_lazy("Free"),
    "by_node": gettext_lazy("Free by node"),
    "filters": gettext_lazy("Nodes"),
    "nodes": gettext_lazy("Nodes"),
    "largest": gettext_lazy("Largest available"),
    "out_of_service": gettext_lazy("Out of service"),
    "disk_mib": gettext_lazy("Largest available"),
    "cpu_milli": gettext_lazy("Most CPUs on a node"),
    "memory_mib": gettext_lazy("Most memory on a node"),
    "disk_free_mib": gettext_lazy("Most disk free on a node"),
    "disk_not_told": gettext_lazy("Nodes that do not report their disk"),
    "held_by_own_jobs": gettext_lazy("Jobs of this project on such GPUs"),
    "held_by_other_jobs": gettext_lazy("Jobs of other projects on such GPUs"),
    "networks": gettext_lazy("Networks with free devices"),
    "most_in_one_network": gettext_lazy("Most free on one network"),
    "largest_networked_gang": gettext_lazy("Largest gang that finds addresses"),
    "first_ends_at": gettext_lazy("First of them ends by"),
    "held_by": gettext_lazy("Held by"),
    "borrowed_by": gettext_lazy("Borrowed by"),
    "borrowing_projects": gettext_lazy("Other borrowing projects"),
    "borrowed_by_others_units": gettext_lazy("Borrowed by other projects"),
    "limit_units": gettext_lazy("May hold"),
    "used_units": gettext_lazy("Held now"),
    "promised_units": gettext_lazy("Kept for jobs ahead"),
    "needed_units": gettext_lazy("Needed"),
    "model": gettext_lazy("GPU model"),
    "borrow_units": gettext_lazy("Borrowing limit"),
    "borrowed_units": gettext_lazy("Borrowed now"),
    "may_borrow_units": gettext_lazy("Can borrow now"),
    "approval_units": gettext_lazy("Allowed without approval"),
    "approval_seconds": gettext_lazy("Allowed without approval"),
    "approval_unit_seconds": gettext_lazy("Allowed without approval"),
    "time_limit_seconds": gettext_lazy("Time limit"),
    "priority": gettext_lazy("Priority"),
    "limit_unit_seconds": gettext_lazy("Budget"),
    "used_unit_seconds": gettext_lazy("Used"),
    "held_unit_seconds": gettext_lazy("Reserved for running jobs"),
    "needed_unit_seconds": gettext_lazy("Needed"),
    "fitting_limit_seconds": gettext_lazy("Longest time limit that fits"),
    "ends_at": gettext_lazy("Budget ends"),
    "max_running": gettext_lazy("Maximum running jobs"),
    "array": gettext_lazy("Array"),
    "running": gettext_lazy("Running now"),
    "stopping": gettext_lazy("Stopping to make room"),
    "job": gettext_lazy("Reserved for"),
    "starts_at": gettext_lazy("Starts by"),
    "begin_at": gettext_lazy("Begin time"),
    "after": gettext_lazy("Waiting for"),
    "secret": gettext_lazy("Missing secret"),
}
# Keys whose value is a job id or a list of them.
JOBS = frozenset({"job", "stopping", "after"})
# Keys whose value maps a user or project to units.
OWNERS = frozenset({"held_by", "borrowed_by"})
# Keys that sentences of reasons also name.
SENTENCE_KEYS = frozenset(
    {"needed", "free", "limit_units", "used_units", "needed_units", "job", "begin_at"}
)


def evidence_rows(reason: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and values, such as ("Free by node", "node-a 2, node-b 1"). Units become GPUs."""
    return [(_label(key), _value(key, value)) for key, value in reason["evidence"].items()]


def unsaid_evidence(reason: dict[str, Any], sentence: str) -> list[tuple[str, str]]:
    """Without the figures that the sentence itself has: what a reader has just read proves
    nothing."""
    rows = zip(reason["evidence"], evidence_rows(reason), strict=True)
    return [row for key, row in rows if not (key in SENTENCE_KEYS and _is_said(row[1], sentence))]


def _is_said(value: str, sentence: str) -> bool:
    figure = re.escape(value.removesuffix(" GPU"))
    return re.search(rf"(?<![\w.]){figure}(?![\w.]\w)", sentence) is not None


def _label(key: str) -> str:
    plain = key.removesuffix("_units").removesuffix("_seconds").replace("_", " ")
    return str(LABELS.get(key, plain.capitalize()))


def _value(key: str, value: Any) -> str:
    if key == "nodes":
        # The reason's sentence explains each of them.
        return ", ".join(value)
    if key == "filters":
        return _filters(value)
    if key in JOBS:
        jobs = [value] if isinstance(value, str) else value
        return ", ".join(map(dependency_label, jobs))
    if key in OWNERS:
        return ", ".join(f"{name} {as_gpus(units)} GPU" for name, units in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(key, value)
    return _plain(value)


def _number(key: str, value: int) -> str:
    if key.endswith("_unit_seconds"):
        hours = as_gpus(-(-value // UNIT_SECONDS_PER_HOUR))
        return _("%(hours)s GPU-hours") % {"hours": hours}
    if key.endswith("_units"):
        return f"{as_gpus(value)} GPU"
    if key.endswith("_seconds"):
        return duration(value)
    if key.endswith("_mib"):
        return memory_words(value)
    if key.endswith("_milli"):
        return cpu_words(value)
    if key.endswith("_at"):
        return write_moment(value)
    return str(value)


def _filters(counts: dict[str, int]) -> str:
    """How many nodes pass each filter of the planner."""
    labels = {
        "all": _("%(n)s in total"),
        "with_this_gpu": _("%(n)s with this GPU"),
        "that_take_it": _("%(n)s eligible"),
        "with_cpu_and_memory": _("%(n)s with CPU and memory"),
        "with_disk": _("%(n)s with disk"),
        "with_room": _("%(n)s with enough room"),
    }
    parts = [labels.get(key, f"%(n)s {_label(key)}") % {"n": n} for key, n in counts.items()]
    return _(", ").join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(inner) for inner in value)
    return str(value)
