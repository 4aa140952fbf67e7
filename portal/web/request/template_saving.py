"""The filled-in request form, saved as a template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.models import Template
from portal.catalogue.services import template_save
from portal.errors import Refused
from portal.web.request.form import Asked, limits
from portal.web.wording.messages import told_refusal
from scheduler.core.request import request_as_dict

NAME, DESCRIPTION, PROJECT = "template_name", "template_description", "template_project"
# Of whom a template is that every project may use.
EVERYBODY = "*"
LONGEST = 300


@dataclass(slots=True)
class Saving:
    """What was typed, by the form's fields, and what came of it."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    status: int = 200
    saved: Template | None = None
    is_open: bool = False


def is_saving(form: Mapping[str, str]) -> bool:
    """Whether a post saves a template. Enter presses the form's first button, whichever field one
    is in: with the template's name filled in, it must not start a job."""
    return "save" in form or ("enter" in form and bool(form.get(NAME, "").strip()))


def not_yet(asked: Asked, *, is_open: bool = False) -> Saving:
    values = {NAME: asked.values["name"], DESCRIPTION: "", PROJECT: asked.values["project"]}
    return Saving(values, is_open=is_open)


def save(user: User, asked: Asked, form: Mapping[str, str], projects: Sequence[Project]) -> Saving:
    """A new template of the form's request. Nothing is submitted."""
    typed = {name: form.get(name, "")[:LONGEST] for name in (NAME, DESCRIPTION, PROJECT)}
    saving = Saving(typed, is_open=True)
    if asked.request is None:
        saving.errors[NAME] = _("Mend the fields of the request first, then save it")
        saving.status = 400
        return saving
    try:
        saving.saved = template_save(
            by=user,
            name=typed[NAME],
            description=typed[DESCRIPTION],
            project=_place(typed[PROJECT], projects),
            request=request_as_dict(asked.request),
            limits=limits(),
        )
    except Refused as refused:
        fields = {"description": DESCRIPTION, "project": PROJECT}
        saving.errors[fields.get(refused.field, NAME)] = told_refusal(refused)
        saving.status = refused.status
    else:
        saving.is_open = False
    return saving


def _place(slug: str, projects: Sequence[Project]) -> Project | None:
    """None is everybody; whether the user may save there is the service's to say."""
    if slug == EVERYBODY:
        return None
    found = next((one for one in projects if one.slug == slug), None)
    if found is None:
        raise Refused("project_unknown", "Choose one of your projects", "project")
    return found
