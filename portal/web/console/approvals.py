"""The approvals inbox: a project admin sees those of their projects, a platform admin all."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from portal.errors import Refused
from portal.planning.partition_preview import (
    Change,
    Fate,
    PartitionPreview,
    Step,
    partition_preview,
)
from portal.submission.approvals import (
    MOST_AT_ONCE,
    Start,
    approvals_decide,
    askings,
    awaiting_for,
    decides,
    starts_if_approved,
)
from portal.web.console.partition_drawing import drawn
from portal.web.console.planner import is_asked
from portal.web.http import person
from portal.web.wording.evidence import evidence_of
from portal.web.wording.messages import told, told_refusal
from portal.web.wording.start_estimates import Expected, expected

ON_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A start in words: when, or why not at once."""

    at_once: bool
    expected: Expected | None
    why: str


@login_required
@require_http_methods(["GET", "POST"])
def approvals(request: HttpRequest) -> HttpResponse:
    user = person(request)
    if not decides(user):
        raise Http404
    if request.method == "POST":
        return _decide(request)
    return _page(request)


@login_required
def approval(request: HttpRequest, ref: str) -> HttpResponse:
    """One job: the whole of what was asked, and what a yes would do to the cluster."""
    jobs = awaiting_for(person(request))
    number = ref.removeprefix("J-")
    job = jobs.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 19 else None
    if job is None:
        raise Http404
    context: dict[str, Any] = {"one": askings([job])[0], "evidence": evidence_of(job.reason or {})}
    if is_asked(request):
        start = _foreseen(starts_if_approved([job])[job.pk])
        changes = drawn(_for_it(partition_preview(job=job)))
        context |= {"start": start, "changes": changes, "is_asked": True}
    return render(request, "web/console/approval.html", context)


def _page(request: HttpRequest, because: str = "", error: str = "") -> HttpResponse:
    rows = awaiting_for(person(request))
    count = rows.count()
    jobs = list(rows[:ON_A_PAGE])
    with_starts = bool(jobs) and is_asked(request)
    starts = starts_if_approved(jobs) if with_starts else {}
    chosen = request.POST.getlist("job")
    context = {
        "rows": [(one, _foreseen(starts.get(one.job.pk))) for one in askings(jobs)],
        "count": count,
        "more": count - len(jobs),
        "with_starts": with_starts,
        "because": because,
        "error": error,
        "chosen": chosen,
        "headline": _headline(count),
    }
    status = 400 if error else 200
    return render(request, "web/console/approvals.html", context, status=status)


def _decide(request: HttpRequest) -> HttpResponse:
    verdict = request.POST.get("verdict", "")
    verb, _colon, single = verdict.partition(":")
    if verb not in ("approve", "refuse"):
        return _page(request, error=_("Choose approve or refuse"))
    refs = [single] if single else request.POST.getlist("job")
    because = request.POST.get("because", "")[:200]
    try:
        decided = approvals_decide(
            refs=refs[: MOST_AT_ONCE + 1],
            by=person(request),
            approve=verb == "approve",
            because=because,
        )
    except Refused as refused:
        return _page(request, because, told_refusal(refused))
    done = [ref for ref, wrong in decided if wrong is None]
    if done:
        said = _("Approved: %(jobs)s") if verb == "approve" else _("Refused: %(jobs)s")
        messages.success(request, said % {"jobs": ", ".join(done)})
    for ref, wrong in decided:
        if wrong is not None:
            said = _("%(job)s: %(why)s") % {"job": ref[:20], "why": told_refusal(wrong)}
            messages.error(request, said)
    return redirect("web:approvals")


def _for_it(preview: PartitionPreview) -> list[Change]:
    """The GPUs that the job itself would change; not what is prepared for others meanwhile."""
    makes_room = preview.job is not None and preview.job.fate is Fate.PARTITION
    steps = {Step.PLACE, Step.MERGE} if makes_room else {Step.PLACE}
    return [one for one in preview.changes if any(done.step in steps for done in one.steps)]


def _foreseen(start: Start | None) -> Foreseen | None:
    if start is None:
        return None
    found = expected(start.estimate) if start.estimate else None
    return Foreseen(start.at_once, found, told(start.reason) if start.reason else "")


def _headline(count: int) -> str:
    if not count:
        return _("Nothing waits for your approval")
    return ngettext(
        "%(n)s job waits for your approval", "%(n)s jobs wait for your approval", count
    ) % {"n": count}
