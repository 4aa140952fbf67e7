"""What the request form begins with: a job to clone, a template, a ready start, one's last job or
an example. What was right when it was written and is wrong today is told beside its field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.models import Template
from portal.catalogue.selectors import require_image_allowed, visible_template
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible
from portal.web.request.cards import CardDeck
from portal.web.request.form import (
    FilledForm,
    form_from_job,
    form_from_request,
    new_form,
    parse_form,
)
from portal.web.request.form_conditions import parse_changes
from portal.web.request.quick_starts import quick_start_values
from portal.web.wording.messages import refusal_text

MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Prefill:
    """A form as it is first shown. `copy_of`: the job that somebody clones; `template`: the one
    that somebody took. `missing`: why what the address names is not there."""

    form: FilledForm
    copy_of: Job | None = None
    template: Template | None = None
    missing: str = ""


def prefill(
    user: User, query: Mapping[str, str], projects: Sequence[Project], cards: CardDeck
) -> Prefill:
    """The address may name a job (`like`, with a `change`), a template or a start, and beside them
    a `project` and an `amount`."""
    slugs = [project.slug for project in projects]
    job, template, missing = None, None, ""
    try:
        job = job_visible(user, query["like"]) if query.get("like") else None
        template = _template(user, query["template"]) if query.get("template") else None
    except Refused as refused:
        missing = refusal_text(refused)
    start = quick_start_values(query.get("start", ""))
    source = job or (None if template or start is not None else _last_of(user))
    place = source.project if source else template.project if template else None
    home = place.slug if place else ""
    wanted = (query.get("project", ""), home, *slugs)
    project = next((slug for slug in wanted if slug in slugs), "")
    if source:
        values = form_from_job(source, project, parse_changes(query.get("change", "")))
    elif template:
        values = form_from_request(template.request, project)
    else:
        values = {**new_form(project), **(start or {})}
    values["amount"] = query.get("amount") or values["amount"] or cards.default_amount
    asked = _today(cards.normalized(values), projects)
    if job and home not in slugs and not query.get("project"):
        said = _("You cannot start work in %(project)s, where this job was. Choose another project")
        asked.errors["project"] = said % {"project": home}
    return Prefill(asked, job, template, missing)


def _template(user: User, ref: str) -> Template:
    is_number = ref.isascii() and ref.isdigit() and len(ref) <= MAX_DIGITS
    return visible_template(user, int(ref) if is_number else 0)


def _last_of(user: User) -> Job | None:
    return Job.objects.filter(owner=user).select_related("project").order_by("-id").first()


def _today(values: dict[str, str], projects: Sequence[Project]) -> FilledForm:
    """The form, with what today's limits and its project's list of images say of it."""
    asked = parse_form(values)
    project = next((one for one in projects if one.slug == values["project"]), None)
    if project:
        try:
            require_image_allowed(project, values["image"])
        except Refused as refused:
            asked.add_error(refused.field, refusal_text(refused))
    return asked
