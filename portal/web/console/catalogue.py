"""Templates and image policies. A stale save shows both versions before it may replace one."""

from dataclasses import dataclass, field
from typing import Any

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_of, projects_to_work_in
from portal.catalogue.models import ImageRule, Template
from portal.catalogue.selectors import (
    image_policy_of,
    may_change_template,
    visible_template,
    visible_templates,
)
from portal.catalogue.services import (
    image_policy_set,
    template_delete,
    template_save,
    template_update,
)
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.submission.limits import request_limits
from portal.web.console.access import platform_admins_only
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.project_access import project_or_404
from portal.web.wording.messages import refusal_text, request_errors_text
from portal.web.written_request import read_written_request
from scheduler.core.request import InvalidRequest

EXAMPLE_REQUEST = """name: train
image: registry/pytorch:2.7
command: ["python", "train.py"]
device: {gpus: 1}
time_limit: 4h
"""


@dataclass(slots=True)
class TemplateForm:
    """What was typed and what is wrong with it, by field."""

    values: dict[str, str]
    # Version of the template that was edited; 0 for a new one.
    version: int = 0
    errors: dict[str, str] = field(default_factory=dict)


@login_required
def templates(request: AuthenticatedHttpRequest) -> HttpResponse:
    user = request.user
    rows = [(row, may_change_template(user, row)) for row in visible_templates(user)]
    title = ngettext("%(n)s template", "%(n)s templates", len(rows)) % {"n": len(rows)}
    return render(request, "web/console/templates.html", {"rows": rows, "headline": title})


@login_required
def template_new(request: AuthenticatedHttpRequest) -> HttpResponse:
    user = request.user
    projects = _projects(user)
    if not projects and not user.is_platform_admin:
        raise Http404
    if request.method != "POST":
        values = {"name": "", "description": "", "request": EXAMPLE_REQUEST}
        values["project"] = projects[0].slug if projects else ""
        return _page(request, TemplateForm(values))
    form = _read(request)
    try:
        template_save(
            actor=user,
            project=_project(user, form.values["project"]),
            name=form.values["name"],
            description=form.values["description"],
            request=read_written_request(form.values["request"]),
            limits=request_limits(),
        )
    except (Refused, InvalidRequest) as refused:
        return _page(request, form, status=_add_error(form, refused))
    messages.success(request, _("Template saved"))
    return redirect("web:templates")


@login_required
def template_edit(request: AuthenticatedHttpRequest, pk: int) -> HttpResponse:
    user = request.user
    try:
        row = visible_template(user, pk)
    except Refused as refused:
        raise Http404 from refused
    if not may_change_template(user, row):
        raise Http404
    if request.method != "POST":
        return _page(request, TemplateForm(_values(row), row.version), row)
    if request.POST.get("step") == "delete":
        with refusals_as_messages(request):
            template_delete(template=row, actor=user)
            messages.success(request, _("Template deleted. Jobs created from it continue"))
        return redirect("web:templates")
    form = _read(request)
    try:
        template_update(
            template=row,
            actor=user,
            version=form.version,
            name=form.values["name"],
            description=form.values["description"],
            request=read_written_request(form.values["request"]),
            limits=request_limits(),
        )
    except (Refused, InvalidRequest) as refused:
        status = _add_error(form, refused)
        return _page(request, form, row, is_stale=status == 412, status=status)
    messages.success(request, _("Template saved"))
    return redirect("web:templates")


@platform_admins_only
def images(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The images that each project may request."""
    projects = projects_of(request.user).select_related("image_policy").filter(archived=False)
    rows = [(project, getattr(project, "image_policy", None)) for project in projects]
    return render(request, "web/console/images.html", {"rows": rows})


@platform_admins_only
def image_policy(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    user = request.user
    project = project_or_404(user, slug)
    policy = image_policy_of(project)
    context: dict[str, Any] = {"project": project, "policy": policy, "status": 200}
    typed = {"rule": str(policy.rule), "patterns": "\n".join(policy.patterns)}
    if request.method == "POST":
        typed = {name: request.POST.get(name, "")[:20_000] for name in typed}
        rule = ImageRule.LISTED if typed["rule"] == ImageRule.LISTED else ImageRule.ANY
        try:
            image_policy_set(
                project=project,
                actor=user,
                rule=rule,
                patterns=typed["patterns"].splitlines(),
                version=_number(request.POST.get("version", "")),
            )
        except Refused as refused:
            is_stale = refused.status == 412
            context |= {"error": refusal_text(refused), "status": refused.status, "stale": is_stale}
        else:
            messages.success(request, _("List saved. It applies to new jobs"))
            return redirect("web:images")
    context |= {"typed": typed}
    return render(request, "web/console/image_policy.html", context, status=context["status"])


def _projects(user: User) -> list[Project]:
    """The projects whose templates the user may save."""
    if user.is_platform_admin:
        return list(projects_of(user).filter(archived=False))
    return list(projects_to_work_in(user).order_by("slug"))


def _project(user: User, slug: str) -> Project | None:
    """The project to save in, None for all. The service decides whether the user may."""
    if not slug:
        return None
    project = next((project for project in _projects(user) if project.slug == slug), None)
    if project is None:
        raise Refused(ErrorCode.PROJECT_UNKNOWN, "Choose one of your projects", "project")
    return project


def _page(
    request: AuthenticatedHttpRequest,
    form: TemplateForm,
    row: Template | None = None,
    is_stale: bool = False,
    status: int = 200,
) -> HttpResponse:
    context = {
        "form": form,
        "row": row,
        "projects": _projects(request.user),
        "may_save_for_all": request.user.is_platform_admin,
        "stale": _values(row) if row and is_stale else None,
    }
    if row and is_stale:
        form.version = row.version
    return render(request, "web/console/template.html", context, status=status)


def _values(row: Template) -> dict[str, str]:
    text = yaml.safe_dump(row.request, allow_unicode=True, sort_keys=False, default_flow_style=None)
    return {
        "name": row.name,
        "description": row.description,
        "project": row.project.slug if row.project else "",
        "request": text,
    }


def _read(request: HttpRequest) -> TemplateForm:
    names = ("name", "description", "project", "request")
    values = {name: request.POST.get(name, "")[:65_536] for name in names}
    return TemplateForm(values, _number(request.POST.get("version", "")))


def _add_error(form: TemplateForm, refused: Refused | InvalidRequest) -> int:
    """Put the refusal beside its field. Returns the HTTP status."""
    if isinstance(refused, InvalidRequest):
        form.errors["request"] = request_errors_text(refused)
        return 400
    name = refused.field if refused.field in form.values else "name"
    form.errors[name] = refusal_text(refused)
    return refused.status


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
