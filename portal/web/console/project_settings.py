"""The settings of a project: its name, share of the cluster, caps, approval thresholds, its end."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from agents.contract.egress import EgressPolicy
from agents.contract.units import SECONDS_PER_HOUR
from portal.accounts.models import Project
from portal.accounts.services import (
    APPROVAL_BOUNDS,
    MEMBER_SHARE_BOUNDS,
    project_egress_set,
    project_share_set,
    project_terminals_set,
    project_update,
)
from portal.errors import Refused
from portal.files.limits import (
    MAX_KEPT_DAYS,
    MAX_STORED_GIB,
    limits_of_row,
    stored_limits_set,
)
from portal.files.models import ProjectFiles
from portal.idle.models import DEFAULT_THRESHOLD_PERCENT
from portal.idle.selectors import policy_of
from portal.idle.services import idle_policy_set
from portal.jobs.models import Job
from portal.web.console.access import platform_admins_only
from portal.web.console.amounts import GPU, GPU_HOUR, format_amount
from portal.web.console.form_fields import AmountField
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import project_or_404
from portal.web.wording.messages import refusal_text

# Thresholds as they are typed: the column, and how many of its steps one of what is typed has.
THRESHOLDS = {
    "approval_units": GPU,
    "approval_seconds": SECONDS_PER_HOUR,
    "approval_unit_seconds": GPU_HOUR,
}
STORAGE = ("stored_gib", "kept_days")


EGRESS_LABELS = {
    EgressPolicy.ALL: gettext_lazy("Everything"),
    EgressPolicy.INTERNET: gettext_lazy("The Internet, no private networks"),
    EgressPolicy.NONE: gettext_lazy("Nothing but their own gang"),
}
IDLE_FIELDS = ("idle_threshold_percent", "idle_warn_minutes", "idle_stop_minutes")


class ThresholdField(AmountField):
    """An amount above which jobs need an approval, or None if empty."""

    def __init__(self, column: str) -> None:
        most = APPROVAL_BOUNDS[column][1]
        too_large = gettext_lazy("Enter a smaller number")
        super().__init__(
            unit=THRESHOLDS[column], max_units=most, too_large=too_large, required=False
        )

    def clean(self, value: Any) -> int | None:  # type: ignore[override]  # empty is no threshold
        return None if value in (None, "") else super().clean(value)


def _count_field(column: str) -> forms.IntegerField:
    least, most = MEMBER_SHARE_BOUNDS[column]
    return forms.IntegerField(min_value=least, max_value=most)


class ProjectSettingsForm(forms.Form):
    name = forms.CharField(
        max_length=100,
        error_messages={"required": gettext_lazy("A name has 1 to 100 characters")},
    )
    weight = _count_field("weight")
    max_running = _count_field("max_running")
    max_pending = _count_field("max_pending")
    approval_units = ThresholdField("approval_units")
    approval_seconds = ThresholdField("approval_seconds")
    approval_unit_seconds = ThresholdField("approval_unit_seconds")
    approval_high = forms.BooleanField(required=False)
    idle_threshold_percent = forms.IntegerField(required=False)
    idle_warn_minutes = forms.IntegerField(required=False)
    idle_stop_minutes = forms.IntegerField(required=False)
    stored_gib = forms.IntegerField(min_value=0, max_value=MAX_STORED_GIB, required=False)
    kept_days = forms.IntegerField(min_value=0, max_value=MAX_KEPT_DAYS, required=False)
    bars_terminals = forms.BooleanField(required=False)
    egress = forms.ChoiceField(
        choices=[(str(policy), policy) for policy in EgressPolicy], required=False
    )


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    project = project_or_404(request.user, slug)
    if request.method != "POST":
        return _page(request, project, ProjectSettingsForm(_typed(project)))
    form = ProjectSettingsForm(request.POST)
    if not form.is_valid():
        return _page(request, project, form, status=400)
    try:
        _save(project, dict(form.cleaned_data), actor=request.user.username)
    except Refused as refused:
        field = refused.field if refused.field in form.fields else None
        form.add_error(field, refusal_text(refused))
        return _page(request, project, form, status=refused.status)
    messages.success(request, _("Saved. It counts from the next planning pass on"))
    return redirect("web:project", project.slug)


@platform_admins_only
@require_POST
def archive(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """Archive the project (`archived` is 1), or take it out of the archive."""
    project, archived = project_or_404(request.user, slug), request.POST.get("archived") == "1"
    actor = request.user.username
    project_update(project=project, name=project.name, archived=archived, actor=actor)
    text = (
        _("%(project)s is archived: it takes no new jobs")
        if archived
        else _("%(project)s takes jobs again")
    )
    messages.success(request, text % {"project": project.slug})
    return redirect("web:project", project.slug)


def _save(project: Project, values: dict[str, Any], *, actor: str) -> None:
    """Only what differs, each with its audit entry, all or nothing."""
    name = values.pop("name")
    idle = {field.removeprefix("idle_"): values.pop(field) for field in IDLE_FIELDS}
    idle["threshold_percent"] = idle["threshold_percent"] or DEFAULT_THRESHOLD_PERCENT
    storage = {field: values.pop(field) for field in STORAGE}
    egress = values.pop("egress") or project.egress
    bars_terminals = values.pop("bars_terminals")
    changed = {field: value for field, value in values.items() if getattr(project, field) != value}
    with transaction.atomic():
        if name != project.name:
            project_update(project=project, name=name, archived=project.archived, actor=actor)
        if changed:
            project_share_set(project=project, actor=actor, **changed)
        if egress != project.egress:
            project_egress_set(project=project, egress=EgressPolicy(egress), actor=actor)
        project_terminals_set(project=project, is_barred=bars_terminals, actor=actor)
        idle_policy_set(project=project, actor=actor, **idle)
        if storage != _storage(project):
            stored_limits_set(project=project, actor=actor, **storage)


def _typed(project: Project) -> dict[str, Any]:
    """The project's settings as a person would type them."""
    others = (*IDLE_FIELDS, *STORAGE)
    columns = [name for name in ProjectSettingsForm.base_fields if name not in others]
    values = {name: getattr(project, name) for name in columns} | _storage(project)
    policy = policy_of(project.pk)
    values |= {
        "idle_threshold_percent": policy.threshold_percent if policy else DEFAULT_THRESHOLD_PERCENT,
        "idle_warn_minutes": policy.warn_minutes if policy else None,
        "idle_stop_minutes": policy.stop_minutes if policy else None,
    }
    for name, unit in THRESHOLDS.items():
        stored = values[name]
        values[name] = "" if stored is None else format_amount(stored, unit)
    return values


def _storage(project: Project) -> dict[str, int | None]:
    """Its own limits; None for those of the settings."""
    row = ProjectFiles.objects.filter(pk=project.pk).first() or ProjectFiles()
    return {field: getattr(row, field) for field in STORAGE}


def _page(
    request: HttpRequest, project: Project, form: ProjectSettingsForm, status: int = 200
) -> HttpResponse:
    jobs = Job.objects.filter(project=project)
    context = {
        "project": project,
        "form": form,
        "running": jobs.allocated().count(),
        "waiting": jobs.waiting().count(),
        "egress_policies": EGRESS_LABELS.items(),
        "default_gib": limits_of_row(None).stored_gib,
        "default_days": limits_of_row(None).kept_days,
    }
    return render(request, "web/console/project_settings.html", context, status=status)
