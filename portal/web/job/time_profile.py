"""Where the time of a profiled job went, on the Results tab; and a request to profile a job."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.contract.launcher_names import LauncherName
from agents.contract.profilers import Profiler
from portal.files.time_profiles import (
    TRACE_PATH,
    JobProfile,
    TimeCategory,
    TimeProfile,
    job_profile,
    percent_text,
)
from portal.jobs.models import Job
from portal.web.wording.messages import message_text
from scheduler.core.request.profilers import has_steps
from scheduler.core.request.values import JobKind

LABELS: dict[TimeCategory, str | Promise] = {
    TimeCategory.COMPUTE: _("Computing"),
    TimeCategory.COMMUNICATION: _("Communication"),
    TimeCategory.COPY: _("Copying"),
    TimeCategory.IDLE: _("Idle"),
}


@dataclass(frozen=True, slots=True)
class ShownPart:
    label: str | Promise
    percent: str
    permille: int
    time: str


@dataclass(frozen=True, slots=True)
class ShownOperator:
    name: str
    label: str | Promise
    calls: int
    percent: str
    time: str


@dataclass(frozen=True, slots=True)
class ShownProfile:
    """Texts; without parts, `problem` says why."""

    problem: str
    attempt: int
    trace: str
    """The address of the trace; empty without one."""
    profile: TimeProfile | None
    window: str
    hidden: str
    """Communication that computing hides, of the window; empty if there is none."""
    parts: list[ShownPart]
    operators: list[ShownOperator]
    hints: list[str]


def shown_profile(job: Job) -> ShownProfile | None:
    """None for a job without a profiler."""
    found = job_profile(job)
    return _shown(found) if found else None


def profiling_address(job: Job) -> str:
    """The request form filled in with this job and a profiler; empty where it can have none, or has
    one."""
    request: dict[str, Any] = job.request
    if request.get("profiler", Profiler.NONE) != Profiler.NONE:
        return ""
    kind = JobKind(request.get("kind", JobKind.BATCH))
    if not has_steps(kind, LauncherName(request.get("launcher", LauncherName.NONE))):
        return ""
    change = json.dumps({"profiler": str(Profiler.PYTORCH)})
    return f"{reverse('web:request')}?{urlencode({'like': job.label, 'change': change})}"


def _shown(found: JobProfile) -> ShownProfile:
    profile, trace = found.profile, ""
    if found.tree:
        address = reverse("web:tree_file", args=[found.tree])
        trace = f"{address}?{urlencode({'path': TRACE_PATH})}"
    parts: list[ShownPart] = []
    operators: list[ShownOperator] = []
    hidden = 0
    if profile:
        for category, us in profile.times_us.items():
            share = profile.percent(us)
            text = percent_text(share)
            parts.append(ShownPart(LABELS[category], text, round(share * 10), time_text(us)))
        for each in profile.operators:
            text = percent_text(profile.percent(each.us))
            label = LABELS[each.category]
            operators.append(ShownOperator(each.name, label, each.calls, text, time_text(each.us)))
        exposed = profile.times_us[TimeCategory.COMMUNICATION]
        hidden = max(0, profile.communication_total_us - exposed)
    return ShownProfile(
        problem=message_text(found.problem) if found.problem else "",
        attempt=found.attempt,
        trace=trace,
        profile=profile,
        window=time_text(profile.window_us) if profile else "",
        hidden=percent_text(profile.percent(hidden)) if profile and hidden else "",
        parts=parts,
        operators=operators,
        hints=[message_text(hint) for hint in profile.hints] if profile else [],
    )


def time_text(us: int) -> str:
    """ "2.67 s", "41 ms", "0.4 ms"."""
    if us >= 1_000_000:
        return f"{us / 1e6:.2f}\N{NO-BREAK SPACE}s"
    digits = 0 if us >= 10_000 else 1
    return f"{us / 1e3:.{digits}f}\N{NO-BREAK SPACE}ms"
