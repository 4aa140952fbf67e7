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
from portal.web.http import AuthenticatedHttpRequest
from portal.web.request.card_starts import card_starts, unknown_card_starts
from portal.web.request.cards import CardDeck, all_amounts, cards_now
from portal.web.request.choices import form_choices
from portal.web.request.form import (
    FilledForm,
    curl_command,
    new_idempotency_key,
    parse_form,
    with_changes,
)
from portal.web.request.form_conditions import EXTRAS, parse_changes
from portal.web.request.prefill import prefill
from portal.web.request.preview import PreviewPanel, pending_preview, preview_request
from portal.web.request.template_picker import template_picker
from portal.web.request.template_saving import (
    TemplateSave,
    is_template_save,
    save_as_template,
    unsaved_template,
)
from portal.web.wording.messages import refusal_text
from scheduler.core.request import request_as_dict, request_as_yaml

ADVANCED_FIELDS = frozenset(
    {"cpu", "memory", "env", "topology", "launcher", "backend", "priority", "models", *EXTRAS}
)


@login_required
def request_page(request: AuthenticatedHttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _posted(request)
    user, cards = request.user, cards_now(request.user)
    projects = _projects(user)
    form = prefill(user, request.GET, projects, cards)
    told = {"copy_of": form.copy_of, "template": form.template, "missing": form.missing}
    saving = unsaved_template(form.form, is_open="save" in request.GET)
    return _page(request, form.form, cards, projects, saving, told=told)


@login_required
@require_POST
def request_preview(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The answer panel and when each card could start, for the form as it is now; `of` of a large
    cluster says which of them, for each takes a while. Changes nothing."""
    asked, of = parse_form(request.POST), request.GET.get("of", "")
    context: dict[str, Any] = {}
    if of != "cards":
        context |= _shown(request, asked, preview_request(request.user, asked))
    if of != "answer":
        context["starts"] = card_starts(request.user, asked, all_amounts())
    return render(request, "web/request/preview_update.html", context)


@login_required
@require_safe
def template_search(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The picker alone, for the name that is being typed."""
    user = request.user
    context = {"picker": template_picker(user, _projects(user), request.GET.dict())}
    return render(request, "web/request/template_choices.html", context)


def _posted(request: AuthenticatedHttpRequest) -> HttpResponse:
    """A job; or an answer, a template, the form filled in anew, and nothing is submitted yet."""
    user, asked = request.user, parse_form(request.POST)
    projects = _projects(user)
    if changes := parse_changes(request.POST.get("instead", "")):
        asked, saving, status = (
            parse_form(with_changes(asked.values, changes)),
            unsaved_template(asked),
            200,
        )
    elif "ask" in request.POST:
        saving, status = unsaved_template(asked), 200
    elif is_template_save(request.POST):
        saving = save_as_template(user, asked, request.POST, projects)
        status = saving.status
    elif job := _submit(user, asked):
        return HttpResponseRedirect(reverse("web:job", args=[job.label]))
    else:
        saving, status = unsaved_template(asked), 400
    cards = cards_now(user)
    asked.values = cards.normalized(asked.values)
    return _page(request, asked, cards, projects, saving, status=status)


def _submit(user: User, asked: FilledForm) -> Job | None:
    """The new job, or None with the refusal among the form's errors."""
    if asked.request is None:
        return None
    try:
        return job_submit(user=user, request=asked.request, idempotency_key=asked.values["key"])
    except Refused as refused:
        if refused.code == "idempotency_mismatch":
            # Somebody went back in the browser and changed what became a job: another one is due.
            asked.values["key"] = new_idempotency_key()
            asked.add_error("name", _("This form was sent already. Send it again for another job"))
        else:
            asked.add_error(refused.field, refusal_text(refused))
        return None


def _projects(user: User) -> list[Project]:
    return list(projects_to_work_in(user).select_related("image_policy").order_by("slug"))


def _page(
    request: AuthenticatedHttpRequest,
    asked: FilledForm,
    cards: CardDeck,
    projects: Sequence[Project],
    saving: TemplateSave,
    *,
    told: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    given = request.GET.dict() | {"project": asked.values["project"]}
    shown = cards.with_amount(asked.values["amount"])
    amounts = [card.value for card in shown.cards]
    # The planner takes a while over a large cluster: the page's script asks for the answer.
    is_asked = request.method == "POST" or not cards.is_large
    starts = card_starts(request.user, asked, amounts) if is_asked else unknown_card_starts(amounts)
    answer = preview_request(request.user, asked) if is_asked else pending_preview(asked)
    context = _shown(request, asked, answer) | form_choices() | dict(told or {})
    context |= {
        "values": asked.values,
        "errors": asked.errors,
        "stock": shown,
        "cards": [(card, starts[card.value]) for card in shown.cards],
        "is_open": not ADVANCED_FIELDS.isdisjoint(asked.errors),
        "projects": projects,
        "image_allow": settings.PLATFORM.image_allow,
        "picker": template_picker(request.user, projects, given),
        "saving": saving,
        "for_everybody": request.user.is_platform_admin,
    }
    return render(request, "web/request.html", context, status=status)


def _shown(request: HttpRequest, asked: FilledForm, answer: PreviewPanel) -> dict[str, Any]:
    """The answer to the form and the same request in other forms."""
    wanted = asked.request
    url = request.build_absolute_uri(reverse("api:jobs"))
    return {
        "shown_answer": answer,
        "yaml": request_as_yaml(wanted) if wanted else "",
        "curl": curl_command(wanted, url) if wanted else "",
        "command_line": as_command(request_as_dict(wanted)) if wanted else "",
    }
