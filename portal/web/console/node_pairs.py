"""How fast collectives between a node and others are, as jobs measured it; and starting one."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents.contract.message import read_message
from portal.accounts.selectors import projects_to_work_in
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.node_pairs.judgement import ExpectationSource, PairVerdict
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.selectors import pairs_of
from portal.node_pairs.services import gigabytes_per_second, pair_clear
from portal.submission.limits import request_limits
from portal.submission.pair_measurements import pair_measure
from portal.web.console.access import platform_admins_only
from portal.web.console.nodes import active_node_or_404
from portal.web.console.pair_words import BADGES, SOURCES
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.labels import Badge
from portal.web.wording.messages import message_text, refusal_text, request_errors_text
from scheduler.core.request import InvalidRequest

# Other nodes to choose from.
MAX_NODES = 500
MAX_EXPECTED_GB = 10_000
# Beside which a refusal is shown; any other stands above the form.
FIELDS = ("nodes", "project", "expected")


@dataclass(frozen=True, slots=True)
class PairLine:
    """A row of the table."""

    row: PairMeasurement
    other: Node
    badge: Badge
    busbw: str
    """In GB/s; empty without a result."""
    expected: str
    source: str
    problem: str


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def node_pairs(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """The measured pairs of a node; posting starts a measurement."""
    node = active_node_or_404(name)
    errors: dict[str, str] = {}
    if request.method == "POST" and "clear" in request.POST:
        return _clear(request, node)
    if request.method == "POST":
        try:
            row = _measure(request, node)
        except Refused as refused:
            place = refused.field if refused.field in FIELDS else "other"
            errors = {place: refusal_text(refused)}
        except InvalidRequest as invalid:
            errors = {"other": request_errors_text(invalid)}
        else:
            said = _("%(job)s measures this pair. It waits until both nodes are free")
            messages.success(request, said % {"job": row.measuring_job.label})
            return redirect("web:node_pairs", node.name)
    return _page(request, node, errors)


def _clear(request: AuthenticatedHttpRequest, node: Node) -> HttpResponse:
    """Of a result that is not bad any more, or of another node, nothing is left to clear."""
    known = {str(row.pk): row for row in pairs_of(node)}
    row = known.get(request.POST["clear"])
    if row is not None and row.is_bad:
        pair_clear(measurement=row, actor=request.user.username)
        messages.success(request, _("Gangs use this pair again"))
    return redirect("web:node_pairs", node.name)


def _measure(request: AuthenticatedHttpRequest, node: Node) -> PairMeasurement:
    return pair_measure(
        user=request.user,
        nodes=(node.name, request.POST.get("other", "")[:64]),
        project=request.POST.get("project", "")[:64],
        image=settings.PLATFORM.nccl_tests_image,
        limits=request_limits(),
        expected_mb_per_second=_expected(request.POST.get("expected", "").strip()),
    )


def _expected(text: str) -> int:
    """MB/s of a number of GB/s; 0 for an empty one. Raises Refused(limit_invalid)."""
    try:
        number = Decimal(text or "0")
    except InvalidOperation:
        number = Decimal(-1)
    if not number.is_finite() or not 0 <= number <= MAX_EXPECTED_GB:
        sentence = "Enter GB/s, such as 100, or nothing"
        raise Refused(ErrorCode.LIMIT_INVALID, sentence, "expected")
    return int(number * 1_000)


def _page(request: AuthenticatedHttpRequest, node: Node, errors: dict[str, str]) -> HttpResponse:
    others = Node.objects.active().filter(fabric=node.fabric).exclude(pk=node.pk)
    lines = [_line(row, node) for row in pairs_of(node)]
    known = {line.other.name for line in lines}
    names = list(others.order_by("name").values_list("name", flat=True)[:MAX_NODES])
    context: dict[str, Any] = {
        "node": node,
        "lines": lines,
        "image": settings.PLATFORM.nccl_tests_image,
        # The first is chosen: one that was not measured yet.
        "others": sorted(names, key=lambda name: (name in known, name)),
        "projects": list(
            projects_to_work_in(request.user).order_by("slug").values_list("slug", flat=True)
        ),
        "typed": {name: request.POST.get(name, "") for name in ("other", "project", "expected")},
        "errors": errors,
    }
    status = 400 if errors else 200
    return render(request, "web/console/node_pairs.html", context, status=status)


def _line(row: PairMeasurement, node: Node) -> PairLine:
    verdict, problem = PairVerdict(row.verdict), read_message(row.problem)
    expected = row.expected_mb_per_second
    source = ExpectationSource(row.expected_source)
    return PairLine(
        row=row,
        other=row.second if row.first_id == node.pk else row.first,
        badge=BADGES[verdict],
        busbw=gigabytes_per_second(row.busbw_mb_per_second) if row.is_current else "",
        expected=gigabytes_per_second(expected) if expected else "",
        source=str(SOURCES.get(source, "")),
        problem=message_text(problem) if problem else "",
    )
