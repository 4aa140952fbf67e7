"""Statuses, durations and amounts as pages show them: one place for words, icons and colours."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from agents.contract.image_digest import LOCAL, is_local
from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.jobs.models import Job
from portal.jobs.replica_ranges import replica_range
from scheduler.core.model.states import JobStatus, NodeStatus

NBSP = "\u00a0"
# Between the number and the unit of "8GiB".
UNIT = re.compile(r"(?<=\d)(?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class Badge:
    """A status as colour class, icon and word: a page always shows all three."""

    cls: str
    icon: str
    word: str | Promise


BADGES: dict[str, Badge] = {
    JobStatus.SUBMITTED: Badge("wait", "clock", gettext_lazy("Submitted")),
    JobStatus.AWAITING_APPROVAL: Badge("ask", "clock", gettext_lazy("Awaiting approval")),
    JobStatus.QUEUED: Badge("wait", "clock", gettext_lazy("Queued")),
    JobStatus.PLACED: Badge("move", "bolt", gettext_lazy("Placed")),
    JobStatus.PREPARING: Badge("move", "bolt", gettext_lazy("Preparing")),
    JobStatus.RUNNING: Badge("ok", "play", gettext_lazy("Running")),
    JobStatus.STOPPING: Badge("move", "stop", gettext_lazy("Stopping")),
    JobStatus.SUCCEEDED: Badge("ok", "check", gettext_lazy("Succeeded")),
    JobStatus.FAILED: Badge("bad", "x", gettext_lazy("Failed")),
    JobStatus.CANCELLED: Badge("wait", "stop", gettext_lazy("Cancelled")),
    JobStatus.TIMED_OUT: Badge("warn", "clock", gettext_lazy("Timed out")),
}


# What a tab has room for beside the word: full while it runs, open while it waits.
TAB_MARKS: dict[str, str] = {
    JobStatus.SUBMITTED: "○",
    JobStatus.AWAITING_APPROVAL: "○",
    JobStatus.QUEUED: "○",
    JobStatus.PLACED: "◐",
    JobStatus.PREPARING: "◐",
    JobStatus.RUNNING: "●",
    JobStatus.STOPPING: "◐",
    JobStatus.SUCCEEDED: "✓",
    JobStatus.FAILED: "✗",
    JobStatus.CANCELLED: "■",
    JobStatus.TIMED_OUT: "✗",
}


NODE_BADGES: dict[str, Badge] = {
    NodeStatus.ENROLLED: Badge("wait", "clock", gettext_lazy("Not seen yet")),
    NodeStatus.ONLINE: Badge("ok", "check", gettext_lazy("Online")),
    NodeStatus.UNREACHABLE: Badge("warn", "alert", gettext_lazy("Unreachable")),
    NodeStatus.LOST: Badge("bad", "x", gettext_lazy("Lost")),
    NodeStatus.RETIRED: Badge("wait", "stop", gettext_lazy("Retired")),
}


def tab_title(job: Job) -> str:
    """ "● Running · J-12 train": what changes stands first, as tabs are narrow."""
    return f"{TAB_MARKS[job.status]} {BADGES[job.status].word} · {job.label} {job.name}"


def node_badge(status: str, *, schedulable: bool, blocked: bool, holding: bool = False) -> Badge:
    """An online node that takes no new work is shown as holding back, cordoned or blocked."""
    if status == NodeStatus.ONLINE and holding:
        return Badge("bad", "alert", gettext_lazy("Holds back"))
    if status == NodeStatus.ONLINE and not schedulable:
        return Badge("warn", "stop", gettext_lazy("Cordoned"))
    if status == NodeStatus.ONLINE and blocked:
        return Badge("bad", "stop", gettext_lazy("Blocked"))
    return NODE_BADGES[status]


def duration(seconds: float) -> str:
    """ "2 h 38 min", "4 min", "10 s": at most two parts, with no-break spaces, in the reader's
    language."""
    total = max(0, int(seconds))
    # A page has hundreds of them; seconds beside minutes are not shown.
    return _duration_words(total if total < 60 else total - total % 60, get_language())


@lru_cache(4_096)
def _duration_words(total: int, _language: str | None) -> str:
    if total < 60:
        return _amount(_("%(n)s s"), total)
    if total < 3600:
        return _amount(_("%(n)s min"), total // 60)
    hours, minutes = divmod(total // 60, 60)
    if hours >= 48:
        days = _amount(_("%(n)s d"), hours // 24)
        return f"{days} {_amount(_('%(n)s h'), hours % 24)}" if hours % 24 else days
    text = _amount(_("%(n)s h"), hours)
    return f"{text} {_amount(_('%(n)s min'), f'{minutes:02}')}" if minutes else text


def _amount(unit: str, number: int | str) -> str:
    return unit.replace(" ", NBSP) % {"n": number}


def elapsed(start: datetime | None, end: datetime | None) -> str:
    """From `start` to `end`, or to now; empty without a start."""
    if start is None:
        return ""
    return duration(((end or timezone.now()) - start).total_seconds())


def gigabytes(profile: str) -> str:
    """ "35 GB" of "2g.35gb": the vendor's rounded name for a slice's memory."""
    size = profile.partition(".")[2].partition("gb")[0]
    return f"{size}{NBSP}GB"


def memory_label(mib: int) -> str:
    """ "8 GiB" of 8192; "1536 MiB", as it is not a whole number of GiB."""
    return f"{mib}{NBSP}MiB" if mib % 1024 else f"{mib // 1024}{NBSP}GiB"


def gpu_hours(unit_seconds: int) -> str:
    """GPU-hours used or requested, rounded up to hundredths."""
    return as_gpus(-(-unit_seconds // SECONDS_PER_HOUR))


def share_label(threads: int, size: str) -> str:
    """ "MPS 25 % + 8 GiB": the threads and the memory of an MPS share."""
    return f"MPS {threads}{NBSP}% + {size}"


def exit_meaning(code: int | None, *, memory_kill: bool) -> str:
    """An exit code in words."""
    if memory_kill:
        return _("Memory kill: its memory was not enough (exit 137)")
    match code:
        case None:
            return _("Did not finish")
        case 0:
            return _("Succeeded (exit 0)")
        case 137:
            return _("Killed (exit 137)")
        case 143:
            return _("Stopped on request (exit 143)")
        case 139:
            return _("Crashed: segmentation fault (exit 139)")
        case 127:
            return _("Command not found (exit 127)")
        case _:
            return _("Exited with code %(code)s") % {"code": code}


def device_label(job: Job) -> str:
    """The devices that a job requests, such as "2 × 2g.35gb"."""
    device = job.request["device"]
    if "gpus" in device:
        each = f"{device['gpus']} GPU"
    elif "mps" in device:
        size = UNIT.sub(NBSP, device["mps"]["memory"])
        each = share_label(device["mps"]["threads"], size)
    else:
        each = str(device.get("mig", device.get("memory")))
    least, most = replica_range(job.request)
    if least < most:
        return f"{least}–{most} × {each}"
    return f"{job.replica_count} × {each}" if job.replica_count > 1 else each


def size_sentence(job: Job, placed: int) -> str:
    """With how many of its replicas it was placed; empty for a job of one size."""
    least, most = replica_range(job.request)
    words = {"placed": placed, "least": least, "most": most}
    text = _("%(placed)s replicas of %(least)s to %(most)s.")
    return text % words if least < most else ""


def image_digest_text(digest: str) -> str:
    """Of an image of no registry: its id."""
    words = {"id": digest.removeprefix(LOCAL)}
    return _("%(id)s, an image of no registry") % words if is_local(digest) else digest
