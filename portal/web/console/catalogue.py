"""Templates and image lists: what there is, and changing it with both versions shown when stale."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.phrase import Phrase
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
from portal.errors import Refused
from portal.web.console.access import platform_admins_only, project_or_404, refusals_as_messages
from portal.web.http import AuthenticatedHttpRequest
from portal.web.request.form import limits
from portal.web.wording.messages import refusal_text, request_errors_text
from scheduler.core.request import RequestRefused

EXAMPLE_REQUEST = """name: train
image: registry/pytorch:2.7
command: ["python", "train.py"]
device: {gpus: 1}
time_limit: 4h
"""


class _Plain(yaml.SafeLoader):
    """Without aliases: a few lines of them would grow into gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("write it out; & and * are not read here")
        return super().compose_node(parent, index)


@dataclass(slots=True)
class TemplateForm:
    """What was typed. `everybody`: no project. `errors` by field."""

    values: dict[str, str]
    version: int = 0
    errors: dict[str, str] = field(default_factory=dict)


@login_required
def templates(request: AuthenticatedHttpRequest) -> HttpResponse:
    user = request.user
    rows = [(one, may_change_template(user, one)) for one in visible_templates(user)]
    title = ngettext("%(n)s template", "%(n)s templates", len(rows)) % {"n": len(rows)}
    return render(request, "web/console/templates.html", {"rows": rows, "headline": title})


@login_required
def template_new(request: AuthenticatedHttpRequest) -> HttpResponse:
    user = request.user
    places = _places(user)
    if not places and not user.is_platform_admin:
        raise Http404
    if request.method != "POST":
        fresh = {"name": "", "description": "", "project": "", "request": EXAMPLE_REQUEST}
        return _page(request, TemplateForm(fresh | {"project": places[0].slug if places else ""}))
    form = _read(request)
    try:
        template_save(
            actor=user,
            project=_place(user, form.values["project"]),
            name=form.values["name"],
            description=form.values["description"],
            request=_request(form),
            limits=limits(),
        )
    except (Refused, RequestRefused) as refused:
        return _page(request, form, status=_note(form, refused))
    messages.success(request, _("The template is saved"))
    return redirect("web:templates")


@login_required
def template_edit(request: AuthenticatedHttpRequest, pk: int) -> HttpResponse:
    user = request.user
    try:
        row = visible_template(user, pk)
    except Refused as unseen:
        raise Http404 from unseen
    if not may_change_template(user, row):
        raise Http404
    if request.method != "POST":
        return _page(request, TemplateForm(_values(row), row.version), row)
    if request.POST.get("step") == "delete":
        with refusals_as_messages(request):
            template_delete(template=row, actor=user)
            messages.success(request, _("The template is deleted. Jobs made from it go on"))
        return redirect("web:templates")
    form = _read(request)
    try:
        template_update(
            template=row,
            actor=user,
            version=form.version,
            name=form.values["name"],
            description=form.values["description"],
            request=_request(form),
            limits=limits(),
        )
    except (Refused, RequestRefused) as refused:
        status = _note(form, refused)
        return _page(request, form, row, is_stale=status == 412, status=status)
    messages.success(request, _("The template is saved"))
    return redirect("web:templates")


@platform_admins_only
def images(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Which images each project may ask for."""
    projects = projects_of(request.user).select_related("image_policy").filter(archived=False)
    rows = [(one, getattr(one, "image_policy", None)) for one in projects]
    return render(request, "web/console/images.html", {"rows": rows})


@platform_admins_only
def image_policy(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    user = request.user
    project = project_or_404(user, slug)
    now = image_policy_of(project)
    context: dict[str, Any] = {"project": project, "now": now, "status": 200}
    typed = {"rule": str(now.rule), "patterns": "\n".join(now.patterns)}
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
            messages.success(request, _("The list is saved. It counts for new jobs"))
            return redirect("web:images")
    context |= {"typed": typed}
    return render(request, "web/console/image_policy.html", context, status=context["status"])


def _places(user: User) -> list[Project]:
    if user.is_platform_admin:
        return list(projects_of(user).filter(archived=False))
    return list(projects_to_work_in(user).order_by("slug"))


def _place(user: User, slug: str) -> Project | None:
    """None is everybody; whether the user may save there is the service's to say."""
    if not slug:
        return None
    found = next((one for one in _places(user) if one.slug == slug), None)
    if found is None:
        raise Refused("project_unknown", "Choose one of your projects", "project")
    return found


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
        "places": _places(request.user),
        "for_everybody": request.user.is_platform_admin,
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


def _request(form: TemplateForm) -> Mapping[str, Any]:
    """YAML, of which JSON is a part. Raises Refused(request_unreadable)."""
    try:
        found = yaml.load(form.values["request"], Loader=_Plain)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as wrong:
        why = str(wrong).splitlines()[0] if str(wrong) else "?"
        sentence: str = Phrase("That is no YAML: %(why)s", why=why[:180])
        raise Refused("request_unreadable", sentence, "request") from wrong
    try:
        json.dumps(found)
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        sentence = "Write a request: fields such as image, command and device"
        raise Refused("request_unreadable", sentence, "request")
    return found


def _note(form: TemplateForm, refused: Refused | RequestRefused) -> int:
    """Beside the field; the status that fits."""
    if isinstance(refused, RequestRefused):
        form.errors["request"] = request_errors_text(refused)
        return 400
    name = refused.field if refused.field in form.values else "name"
    form.errors[name] = refusal_text(refused)
    return refused.status


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
