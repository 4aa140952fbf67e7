"""The request page: four short answers, and the planner's own word on them while one types."""

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from agents.contract.documents import Backend
from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.cli.written import as_command
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible
from portal.jobs.services import job_submit
from portal.web.answer import answer_to
from portal.web.person import person
from portal.web.request_extras import EXTRAS, changes_in
from portal.web.request_form import (
    MEMORY,
    SHARE,
    WHOLE,
    Asked,
    as_curl,
    changed,
    fresh,
    like,
    read,
)
from portal.web.starts import start_values
from portal.web.stock import stock
from portal.web.telling import told_refusal
from scheduler.core.request import request_as_dict, request_as_yaml
from scheduler.core.request.values import Launcher
from scheduler.core.values import Isolation, Priority, Topology

TOPOLOGIES = {
    Topology.BEST: gettext_lazy("best: as near as there is room"),
    Topology.SAME_NODE: gettext_lazy("all on one node"),
    Topology.NVLINK: gettext_lazy("joined by NVLink"),
    Topology.ANY: gettext_lazy("anywhere"),
}
LAUNCHERS = {
    Launcher.NONE: gettext_lazy("none: the command as it is"),
    Launcher.TORCHRUN: "torchrun",
}
BACKENDS = {
    Backend.AUTO: gettext_lazy("auto: nccl on whole GPUs, gloo on slices"),
    Backend.NCCL: "nccl",
    Backend.GLOO: "gloo",
}
ISOLATIONS = {
    Isolation.HARDWARE: gettext_lazy("a slice or a whole GPU"),
    Isolation.ANY: gettext_lazy("an MPS share will do"),
}
MAKES_WAY = {
    "": gettext_lazy("only at priority low"),
    "yes": gettext_lazy("yes"),
    "no": gettext_lazy("no"),
}
PRIORITIES = {
    Priority.LOW: gettext_lazy("low"),
    Priority.NORMAL: gettext_lazy("normal"),
    Priority.HIGH: gettext_lazy("high"),
}

FOLDED = frozenset(
    {"cpu", "memory", "env", "topology", "launcher", "backend", "priority", "models", *EXTRAS}
)


@login_required
def request_page(request: HttpRequest) -> HttpResponse:
    user = person(request)
    if request.method == "POST":
        asked = read(request.POST)
        if changes := changes_in(request.POST.get("instead", "")):
            # A button beside the form: it is filled in anew, and nothing is submitted yet.
            return _page(request, read(changed(asked.values, changes)))
        if job := _submit(user, asked):
            return HttpResponseRedirect(reverse("web:job", args=[job.label]))
        return _page(request, asked, status=400)
    return _page(request, _started(request))


@login_required
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """The answer panel alone, for the form as it is now. Changes nothing."""
    return render(request, "web/checked.html", _answered(request, read(request.POST)))


def _started(request: HttpRequest) -> Asked:
    """A form with sensible values: of the job to clone, of the user's last one, or an example."""
    user = person(request)
    first = projects_to_work_in(user).order_by("slug").first()
    project = first.slug if first else ""
    earlier = _earlier(user, request.GET.get("like", ""))
    changes = changes_in(request.GET.get("change", ""))
    values = like(earlier, project, changes) if earlier else fresh(project)
    cards = stock(user)
    if (start := start_values(request.GET.get("start", ""))) is not None:
        values = {**fresh(project), **start}
    values["amount"] = request.GET.get("amount") or values["amount"]
    if not values["amount"]:
        values["amount"] = cards[0].value if cards else WHOLE
    return Asked(values)


def _earlier(user: User, ref: str) -> Job | None:
    if not ref:
        return Job.objects.filter(owner=user).order_by("-id").first()
    try:
        return job_visible(user, ref)
    except Refused:
        return None


def _submit(user: User, asked: Asked) -> Job | None:
    """The new job, or None with the refusal among the form's errors."""
    if asked.request is None:
        return None
    try:
        return job_submit(user=user, request=asked.request, idempotency_key=asked.values["key"])
    except Refused as refused:
        asked.refuse(refused.field, told_refusal(refused))
        return None


def _page(request: HttpRequest, asked: Asked, status: int = 200) -> HttpResponse:
    user = person(request)
    cards = stock(user)
    context = _answered(request, asked) | {
        "values": asked.values,
        "errors": asked.errors,
        "cards": cards,
        "has_shares": any(card.value == SHARE for card in cards),
        "by_memory": MEMORY if asked.values["amount"] == MEMORY else "",
        "isolations": [(str(value), word) for value, word in ISOLATIONS.items()],
        "makes_way": list(MAKES_WAY.items()),
        "is_open": not FOLDED.isdisjoint(asked.errors),
        "projects": projects_to_work_in(user).order_by("slug"),
        "image_allow": settings.PLATFORM.image_allow,
        "topologies": [(str(value), word) for value, word in TOPOLOGIES.items()],
        "launchers": [(str(value), word) for value, word in LAUNCHERS.items()],
        "backends": [(str(value), word) for value, word in BACKENDS.items()],
        "priorities": [(str(value), word) for value, word in PRIORITIES.items()],
    }
    return render(request, "web/request.html", context, status=status)


def _answered(request: HttpRequest, asked: Asked) -> dict[str, object]:
    """The answer to the form and the same request in other forms."""
    shown = asked if asked.request or asked.errors else read(asked.values)
    wanted = shown.request
    url = request.build_absolute_uri(reverse("api:jobs"))
    return {
        "shown_answer": answer_to(person(request), shown),
        "yaml": request_as_yaml(wanted) if wanted else "",
        "curl": as_curl(wanted, url) if wanted else "",
        "command_line": as_command(request_as_dict(wanted)) if wanted else "",
    }
