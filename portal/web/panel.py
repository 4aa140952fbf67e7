"""The panel above a job's log: what it waits for, what is being done, how it ended."""

from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from agents.contract.units import as_gpus
from portal.jobs.models import Attempt, Job, Replica
from portal.web.words import between, exit_meaning
from scheduler.core.reasons import ReasonClass
from scheduler.core.states import JobStatus, SliceStatus

# Waiting is normal and grey; only what someone has to act on has a colour of its own.
LOOK = {
    ReasonClass.WAIT: ("wait", "clock"),
    ReasonClass.CHANGE: ("warn", "alert"),
    ReasonClass.ASK: ("ask", "ask"),
}


@dataclass(frozen=True, slots=True)
class Panel:
    """`title` is the one sentence; `evidence` its numbers by name, `code` the reason's code."""

    cls: str
    icon: str
    title: str
    sentence: str = ""
    code: str = ""
    evidence: list[tuple[str, str]] = field(default_factory=list)


def panel_of(job: Job, attempt: Attempt | None, replicas: list[Replica]) -> Panel | None:
    """None while a job simply runs."""
    match JobStatus(job.status):
        case JobStatus.SUBMITTED | JobStatus.AWAITING_APPROVAL | JobStatus.QUEUED:
            return _waiting(job)
        case JobStatus.PLACED | JobStatus.PREPARING:
            return _starting(replicas)
        case JobStatus.STOPPING:
            return Panel("move", "stop", _("Stopping: its processes may still end by themselves"))
        case JobStatus.SUCCEEDED:
            ran = between(job.started_at, job.finished_at)
            return Panel("ok", "check", _("Ended well"), _("It ran for %(ran)s") % {"ran": ran})
        case JobStatus.CANCELLED:
            return Panel("wait", "stop", _("Cancelled"), _("It uses nothing any more"))
        case JobStatus.TIMED_OUT:
            change = _("Clone it with a longer limit, or let it go on from a checkpoint")
            return Panel("warn", "clock", _("Its time limit was over"), change)
        case JobStatus.FAILED:
            return _failed(attempt)
        case _:
            return None


def evidence_of(reason: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers by name; a number for each node as "node-a 2, node-b 1", units as GPUs."""
    return [_fact(name, value) for name, value in reason["evidence"].items()]


def _fact(name: str, value: Any) -> tuple[str, str]:
    if name.endswith("_units"):
        return name.removesuffix("_units"), f"{as_gpus(value)} GPU"
    return name.replace("_", " "), _said(value)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_said(inner) for inner in value)
    return str(value)


def _waiting(job: Job) -> Panel:
    if not job.reason:
        return Panel("wait", "clock", _("In the queue: the planner looks at it in a moment"))
    cls, icon = LOOK[ReasonClass(job.reason["class"])]
    return Panel(
        cls,
        icon,
        job.reason["sentence"],
        job.reason["unblocks"],
        job.reason["code"],
        evidence_of(job.reason),
    )


def _starting(replicas: list[Replica]) -> Panel:
    nodes = ", ".join(sorted({replica.node.name for replica in replicas}))
    waits = [
        held.slice
        for replica in replicas
        for held in replica.allocations.all()
        if held.slice.status != SliceStatus.READY
    ]
    if waits:
        sentence = _("What runs beside them goes on. This takes seconds")
        title = _("Its slices are being carved on %(nodes)s")
    else:
        sentence = _("Its containers are made. They start together, when all of them are ready")
        title = _("Getting ready on %(nodes)s")
    return Panel("move", "bolt", title % {"nodes": nodes}, sentence)


def _failed(attempt: Attempt | None) -> Panel:
    failure = (attempt.first_failure if attempt else None) or {}
    title = str(failure.get("sentence") or _("It failed"))
    sentence = ""
    if failure.get("exit_code") is not None:
        memory_kill = failure.get("code") == "memory_kill"
        sentence = exit_meaning(failure["exit_code"], memory_kill=memory_kill)
        sentence += ". " + _("The first to fail was rank %(rank)s") % {"rank": failure["rank"]}
    elif failure.get("status") == "lost":
        sentence = _("Not your code; it costs no user retry")
    return Panel("bad", "x", title, sentence, str(failure.get("code", "")))
