"""Saving the request of the filled-in form as a template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.models import Template
from portal.catalogue.services import template_save
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.submission.limits import chosen_fields
from portal.web.request.form import FilledForm
from portal.web.wording.messages import refusal_text
from scheduler.core.request import RequestLimits, request_as_dict

NAME, DESCRIPTION, PROJECT = "template_name", "template_description", "template_project"
# The project value of a template that every project may use.
EVERYBODY = "*"
MAX_LENGTH = 300


@dataclass(slots=True)
class TemplateSave:
    """The template part of the request form."""

    values: dict[str, str]
    """As typed, by form field."""
    errors: dict[str, str] = field(default_factory=dict)
    status: int = 200
    saved: Template | None = None
    is_open: bool = False
    """The part is shown unfolded."""


def is_template_save(data: Mapping[str, str]) -> bool:
    """Whether a post saves a template. Enter in any field presses the form's first button; with a
    template name filled in, that must not start a job."""
    return "save" in data or ("enter" in data and bool(data.get(NAME, "").strip()))


def unsaved_template(form: FilledForm, *, is_open: bool = False) -> TemplateSave:
    values = {NAME: form.values["name"], DESCRIPTION: "", PROJECT: form.values["project"]}
    return TemplateSave(values, is_open=is_open)


def save_as_template(
    user: User,
    form: FilledForm,
    data: Mapping[str, str],
    projects: Sequence[Project],
    limits: RequestLimits,
) -> TemplateSave:
    """Create a template of the form's request. Nothing is submitted."""
    typed = {name: data.get(name, "")[:MAX_LENGTH] for name in (NAME, DESCRIPTION, PROJECT)}
    saving = TemplateSave(typed, is_open=True)
    if form.request is None:
        saving.errors[NAME] = _("Correct the fields of the request first, then save it")
        saving.status = 400
        return saving
    try:
        saving.saved = template_save(
            actor=user,
            name=typed[NAME],
            description=typed[DESCRIPTION],
            project=_project(typed[PROJECT], projects),
            request=chosen_fields(request_as_dict(form.request), limits),
            limits=limits,
        )
    except Refused as refused:
        fields = {"description": DESCRIPTION, "project": PROJECT}
        saving.errors[fields.get(refused.field, NAME)] = refusal_text(refused)
        saving.status = refused.status
    else:
        saving.is_open = False
    return saving


def _project(slug: str, projects: Sequence[Project]) -> Project | None:
    """None for everybody; the service checks whether the user may save there."""
    if slug == EVERYBODY:
        return None
    project = next((p for p in projects if p.slug == slug), None)
    if project is None:
        raise Refused(ErrorCode.PROJECT_UNKNOWN, "Choose one of your projects", "project")
    return project
