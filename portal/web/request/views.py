"""The request page: the form, and what would happen if it were submitted now."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_to_work_in
from portal.cli.as_command import as_command
from portal.errors import Refused
from portal.idempotency.services import call_digest
from portal.jobs.selectors import recent_jobs
from portal.submission.arrays import request_submit
from portal.submission.limits import request_limits
from portal.volumes.caches import caches_of_projects
from portal.web.http import AuthenticatedHttpRequest
from portal.web.idempotency import job_page_once
from portal.web.project_choice import chosen_project
from portal.web.request.card_starts import card_starts, unknown_card_starts
from portal.web.request.cards import RequestCards, all_amounts, cards_now
from portal.web.request.choices import choice_labels
from portal.web.request.code import NOTHING_SENT, SentCode, code_input, with_sent_code
from portal.web.request.code_files import takes_code_files
from portal.web.request.form import (
    FilledForm,
    curl_command,
    new_idempotency_key,
    parse_form,
    with_changes,
    with_filled,
)
from portal.web.request.form_fields import AMOUNT_KINDS, MENDABLE, parse_changes
from portal.web.request.images import allowed_images, image_suggestions
from portal.web.request.inputs import ADVANCED, advanced_inputs, input_help
from portal.web.request.prefill import prefill
from portal.web.request.preview import PreviewPanel, host_line, pending_preview, preview_request
from portal.web.request.template_picker import template_picker
from portal.web.request.template_saving import (
    TemplateSave,
    is_template_save,
    save_as_template,
    unsaved_template,
)
from portal.web.request.time_limits import time_choices
from portal.web.request.volumes import volume_inputs
from portal.web.wording.messages import refusal_text
from scheduler.core.request import RequestLimits, request_as_dict, request_as_yaml
from scheduler.core.request.quantities import write_seconds
from scheduler.core.request_fields import BY_NAME, FIELDS

# A form with an error in one of these is shown with its advanced part unfolded.
ADVANCED_FIELDS = frozenset(field.form_name for field in ADVANCED)
# Form fields whose text may have to be read in one of several ways.
READ_FIELDS = (
    *(f.form_name for f in FIELDS if f.kind in AMOUNT_KINDS and f.top != "device"),
    *("device_memory", "share_memory"),
)


@takes_code_files
@login_required
def request_page(request: AuthenticatedHttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _post(request)
    user, cards = request.user, cards_now(request.user)
    projects = _projects(user)
    limits = request_limits()
    start = prefill(user, _start_query(request), projects, cards, limits)
    notices = {"copy_of": start.copy_of, "template": start.template, "missing": start.missing}
    saving = unsaved_template(start.form, is_open="save" in request.GET)
    return _page(request, start.form, cards, projects, saving, limits, notices=notices)


def _start_query(request: AuthenticatedHttpRequest) -> Mapping[str, str]:
    """The chosen project, unless the address names one, or a job or template that has one."""
    query = request.GET.dict()
    if not {"project", "like", "template"} & query.keys():
        query["project"] = chosen_project(request)
    return query


@takes_code_files
@login_required
@require_POST
def request_preview(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The preview panel and the start of each card, for the form as it is now. Changes nothing.

    On a large cluster each takes a while: `?of=preview` and `?of=cards` ask for one of them.
    `?of=code` takes the files that are sent with the form, and answers with the code alone.
    """
    limits, of = request_limits(), request.GET.get("of", "")
    form = parse_form(request.POST, limits)
    if of == "code":
        return _code_update(request, form, limits)
    context: dict[str, Any] = {}
    if of != "cards":
        context |= _preview_context(request, form, preview_request(request.user, form))
        context |= _recent_context(request.user, form, _projects(request.user), limits)
        context |= {
            "readings": [(name, form.readings.get(name, "")) for name in READ_FIELDS],
            "time_choices": time_choices(form.values["time_limit"], limits),
        }
    if of != "preview":
        context["starts"] = card_starts(request.user, form, all_amounts(), limits)
    return render(request, "web/request/preview_update.html", context)


def _code_update(
    request: AuthenticatedHttpRequest, form: FilledForm, limits: RequestLimits
) -> HttpResponse:
    projects = _projects(request.user)
    form, sent = with_sent_code(request, form, projects, limits)
    context = _recent_context(request.user, form, projects, limits, sent)
    context |= {"values": form.values, "errors": form.errors}
    return render(request, "web/request/code_update.html", context)


@login_required
@require_safe
def template_search(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The template picker alone, while a name is being typed."""
    user = request.user
    context = {"picker": template_picker(user, _projects(user), request.GET.dict())}
    return render(request, "web/request/template_choices.html", context)


def _post(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Submit the job; or only take an alternative, preview, or save a template."""
    user, limits = request.user, request_limits()
    form = parse_form(request.POST, limits)
    projects = _projects(user)
    form, sent = with_sent_code(request, form, projects, limits)
    saving, status = unsaved_template(form), 200
    if sent.is_refused:
        status = 400
    elif "alternative" in request.POST:
        changes = parse_changes(request.POST["alternative"], MENDABLE)
        form = parse_form(with_changes(form.values, changes), limits)
    elif "fill" in request.POST:
        form = parse_form(with_filled(form.values, request.POST["fill"]), limits)
    elif "preview" in request.POST:
        pass
    elif is_template_save(request.POST):
        saving = save_as_template(user, form, request.POST, projects, limits)
        status = saving.status
    elif address := _submit(user, form):
        return HttpResponseRedirect(address)
    else:
        status = 400
    cards = cards_now(user)
    form.values = cards.normalized(form.values)
    return _page(request, form, cards, projects, saving, limits, sent=sent, status=status)


def _submit(user: User, form: FilledForm) -> str | None:
    """The address of the new job, or None with the refusal among the form's errors."""
    job_request = form.request
    if job_request is None:
        return None
    try:
        return job_page_once(
            user=user,
            key=form.values["key"],
            request_digest=call_digest("submit", request_as_dict(job_request)),
            submit=lambda: request_submit(user=user, request=job_request),
        )
    except Refused as refused:
        if refused.code == "idempotency_mismatch":
            # The user went back to a form that has become a job and changed it.
            form.values["key"] = new_idempotency_key()
            form.add_error(
                "name", _("This form was already submitted. Submit it again for another job")
            )
        else:
            form.add_error(refused.field, refusal_text(refused))
        return None


def _projects(user: User) -> list[Project]:
    return list(projects_to_work_in(user).select_related("image_policy").order_by("slug"))


def _page(
    request: AuthenticatedHttpRequest,
    form: FilledForm,
    cards: RequestCards,
    projects: Sequence[Project],
    saving: TemplateSave,
    limits: RequestLimits,
    *,
    notices: Mapping[str, Any] | None = None,
    sent: SentCode = NOTHING_SENT,
    status: int = 200,
) -> HttpResponse:
    user = request.user
    query = request.GET.dict() | {"project": form.values["project"]}
    shown = cards.with_amount(form.values["amount"])
    amounts = [card.value for card in shown.cards]
    # On a large cluster the planner takes a while: the page's script asks for the preview.
    is_immediate = request.method == "POST" or not cards.is_large
    starts = (
        card_starts(user, form, amounts, limits) if is_immediate else unknown_card_starts(amounts)
    )
    panel = preview_request(user, form) if is_immediate else pending_preview(form)
    context = _preview_context(request, form, panel) | dict(notices or {})
    context |= _recent_context(user, form, projects, limits, sent)
    context |= {
        "values": form.values,
        "errors": {name: form.errors[name] for name in (form.first_error, *form.errors) if name},
        "mends": form.mends,
        "reading": form.readings,
        "request_cards": shown,
        "cards": [(card, starts[card.value]) for card in shown.cards],
        "is_second_step": shown.is_second_step(form.values["amount"]) or "models" in form.errors,
        "is_open": not ADVANCED_FIELDS.isdisjoint(form.errors),
        "advanced": advanced_inputs(form, limits),
        "volume_inputs": volume_inputs(projects, form.values["volumes"]),
        "caches": caches_of_projects([project.slug for project in projects]),
        "time_choices": time_choices(form.values["time_limit"], limits),
        "isolations": choice_labels(BY_NAME["device.isolation"]),
        "time_limit_default": write_seconds(limits.default_time_limit_seconds),
        "time_limit_help": input_help(BY_NAME["time_limit"], limits),
        "projects": projects,
        "picker": template_picker(user, projects, query),
        "saving": saving,
        "for_everybody": user.is_platform_admin,
    }
    return render(request, "web/request.html", context, status=status)


def _recent_context(
    user: User,
    form: FilledForm,
    projects: Sequence[Project],
    limits: RequestLimits,
    sent: SentCode = NOTHING_SENT,
) -> dict[str, Any]:
    """Which images the project of the form allows; images and code of the user's latest jobs."""
    project = next((p for p in projects if p.slug == form.values["project"]), None)
    recent = recent_jobs(user)
    return {
        "allowed_images": allowed_images(project, limits.image_allow),
        "image_suggestions": image_suggestions(recent, project, limits.image_allow),
        "code_input": code_input(form, project, recent, sent),
    }


def _preview_context(
    request: AuthenticatedHttpRequest, form: FilledForm, panel: PreviewPanel
) -> dict[str, Any]:
    """The preview panel, and the same request as YAML, as a REST call and as a command."""
    job_request = form.request
    shown = {"preview": panel, "host_line": host_line(form)}
    if job_request is None:
        return shown | {"yaml": "", "curl": "", "command_line": ""}
    return shown | {
        "yaml": request_as_yaml(job_request),
        "curl": curl_command(job_request, request.build_absolute_uri(reverse("api:jobs"))),
        "command_line": as_command(request_as_dict(job_request)),
    }
