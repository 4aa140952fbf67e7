"""The request page: four short answers, and the planner's own word on them while one types."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_to_work_in
from portal.cli.as_command import as_command
from portal.errors import Refused
from portal.jobs.models import Job
from portal.submission.services import job_submit
from portal.web.http import person
from portal.web.request.card_starts import card_starts, not_asked_yet
from portal.web.request.cards import Cards, amounts_there, cards_now
from portal.web.request.choices import choices
from portal.web.request.form import Asked, as_curl, changed, new_key, read
from portal.web.request.form_conditions import EXTRAS, changes_in
from portal.web.request.prefill import begun
from portal.web.request.preview import Answer, answer_later, answer_to
from portal.web.request.template_picker import picker
from portal.web.request.template_saving import Saving, is_saving, not_yet, save
from portal.web.wording.messages import told_refusal
from scheduler.core.request import request_as_dict, request_as_yaml

FOLDED = frozenset(
    {"cpu", "memory", "env", "topology", "launcher", "backend", "priority", "models", *EXTRAS}
)


@login_required
def request_page(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _posted(request)
    user, cards = person(request), cards_now(person(request))
    projects = _projects(user)
    form = begun(user, request.GET, projects, cards)
    told = {"copy_of": form.copy_of, "template": form.template, "missing": form.missing}
    saving = not_yet(form.asked, is_open="save" in request.GET)
    return _page(request, form.asked, cards, projects, saving, told=told)


@login_required
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """The answer panel and when each card could start, for the form as it is now; `of` of a large
    cluster says which of them, for each takes a while. Changes nothing."""
    asked, of = read(request.POST), request.GET.get("of", "")
    context: dict[str, Any] = {}
    if of != "cards":
        context |= _shown(request, asked, answer_to(person(request), asked))
    if of != "answer":
        context["starts"] = card_starts(person(request), asked, amounts_there())
    return render(request, "web/checked.html", context)


@login_required
@require_safe
def templates_found(request: HttpRequest) -> HttpResponse:
    """The picker alone, for the name that is being typed."""
    user = person(request)
    context = {"picker": picker(user, _projects(user), request.GET.dict())}
    return render(request, "web/request/templates.html", context)


def _posted(request: HttpRequest) -> HttpResponse:
    """A job; or an answer, a template, the form filled in anew, and nothing is submitted yet."""
    user, asked = person(request), read(request.POST)
    projects = _projects(user)
    if changes := changes_in(request.POST.get("instead", "")):
        asked, saving, status = read(changed(asked.values, changes)), not_yet(asked), 200
    elif "ask" in request.POST:
        saving, status = not_yet(asked), 200
    elif is_saving(request.POST):
        saving = save(user, asked, request.POST, projects)
        status = saving.status
    elif job := _submit(user, asked):
        return HttpResponseRedirect(reverse("web:job", args=[job.label]))
    else:
        saving, status = not_yet(asked), 400
    cards = cards_now(user)
    asked.values = cards.named(asked.values)
    return _page(request, asked, cards, projects, saving, status=status)


def _submit(user: User, asked: Asked) -> Job | None:
    """The new job, or None with the refusal among the form's errors."""
    if asked.request is None:
        return None
    try:
        return job_submit(user=user, request=asked.request, idempotency_key=asked.values["key"])
    except Refused as refused:
        if refused.code == "idempotency_mismatch":
            # Somebody went back in the browser and changed what became a job: another one is due.
            asked.values["key"] = new_key()
            asked.refuse("name", _("This form was sent already. Send it again for another job"))
        else:
            asked.refuse(refused.field, told_refusal(refused))
        return None


def _projects(user: User) -> list[Project]:
    return list(projects_to_work_in(user).select_related("image_policy").order_by("slug"))


def _page(
    request: HttpRequest,
    asked: Asked,
    cards: Cards,
    projects: Sequence[Project],
    saving: Saving,
    *,
    told: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    given = request.GET.dict() | {"project": asked.values["project"]}
    shown = cards.with_amount(asked.values["amount"])
    amounts = [card.value for card in shown.cards]
    # The planner takes a while over a large cluster: the page's script asks for the answer.
    is_asked = request.method == "POST" or not cards.is_large
    starts = card_starts(person(request), asked, amounts) if is_asked else not_asked_yet(amounts)
    answer = answer_to(person(request), asked) if is_asked else answer_later(asked)
    context = _shown(request, asked, answer) | choices() | dict(told or {})
    context |= {
        "values": asked.values,
        "errors": asked.errors,
        "stock": shown,
        "cards": [(card, starts[card.value]) for card in shown.cards],
        "is_open": not FOLDED.isdisjoint(asked.errors),
        "projects": projects,
        "image_allow": settings.PLATFORM.image_allow,
        "picker": picker(person(request), projects, given),
        "saving": saving,
        "for_everybody": person(request).is_platform_admin,
    }
    return render(request, "web/request.html", context, status=status)


def _shown(request: HttpRequest, asked: Asked, answer: Answer) -> dict[str, Any]:
    """The answer to the form and the same request in other forms."""
    wanted = asked.request
    url = request.build_absolute_uri(reverse("api:jobs"))
    return {
        "shown_answer": answer,
        "yaml": request_as_yaml(wanted) if wanted else "",
        "curl": as_curl(wanted, url) if wanted else "",
        "command_line": as_command(request_as_dict(wanted)) if wanted else "",
    }
