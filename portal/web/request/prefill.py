"""What a new request form starts with: a cloned job, a template, a quick start, or the user's last
job. Values that are no longer valid have an error at their field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.catalogue.models import Template
from portal.catalogue.selectors import require_image_allowed, visible_template
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible
from portal.web.request.cards import RequestCards
from portal.web.request.form import (
    FilledForm,
    new_form_values,
    parse_form,
    values_from_job,
    values_from_request,
    with_changes,
)
from portal.web.request.form_fields import FILLABLE, PREFILLABLE, parse_changes
from portal.web.request.quick_starts import quick_start_values
from portal.web.wording.messages import refusal_text
from scheduler.core.request import RequestLimits

MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Prefill:
    """The form as it is first shown, and where its values come from."""

    form: FilledForm
    copy_of: Job | None = None
    template: Template | None = None
    missing: str = ""
    """Why the job or template that the address names is not available."""


def prefill(
    user: User,
    query: Mapping[str, str],
    projects: Sequence[Project],
    cards: RequestCards,
    limits: RequestLimits,
) -> Prefill:
    """`query` may name a job (`like`, with a `change`), a `template`, a `start` (a quick start) or
    fields to `fill` in a new form, and besides a `project` and an `amount`."""
    slugs = [project.slug for project in projects]
    job, template, missing = None, None, ""
    try:
        job = job_visible(user, query["like"]) if query.get("like") else None
        template = _template(user, query["template"]) if query.get("template") else None
    except Refused as refused:
        missing = refusal_text(refused)
    start = quick_start_values(query.get("start", ""))
    filled = parse_changes(query.get("fill", ""), FILLABLE)
    is_new = template is not None or start is not None or bool(filled)
    source = job or (None if is_new else _last_job(user))
    origin = source.project if source else template.project if template else None
    origin_slug = origin.slug if origin else ""
    candidates = (query.get("project", ""), origin_slug, *slugs)
    project = next((slug for slug in candidates if slug in slugs), "")
    if source:
        changes = parse_changes(query.get("change", ""), PREFILLABLE)
        values = values_from_job(user, source, project, changes, limits)
    elif template:
        values = values_from_request(template.request, project)
    else:
        values = with_changes({**new_form_values(project), **(start or {})}, filled)
        if filled and "image" not in filled and (last := _last_job(user)):
            values["image"] = last.image
    values["amount"] = query.get("amount") or values["amount"] or cards.default_amount
    form = _checked(cards.normalized(values), projects, limits)
    if job and origin_slug not in slugs and not query.get("project"):
        text = _(
            "You cannot submit jobs to %(project)s, the project of this job. Choose another project"
        )
        form.errors["project"] = text % {"project": origin_slug}
    return Prefill(form, job, template, missing)


def _template(user: User, ref: str) -> Template:
    is_number = ref.isascii() and ref.isdigit() and len(ref) <= MAX_DIGITS
    return visible_template(user, int(ref) if is_number else 0)


def _last_job(user: User) -> Job | None:
    return Job.objects.filter(owner=user).select_related("project").order_by("-id").first()


def _checked(
    values: dict[str, str], projects: Sequence[Project], limits: RequestLimits
) -> FilledForm:
    """The parsed form, checked against today's limits and the image policy of its project."""
    form = parse_form(values, limits)
    project = next((p for p in projects if p.slug == values["project"]), None)
    if project:
        try:
            require_image_allowed(project, values["image"])
        except Refused as refused:
            form.add_error(refused.field, refusal_text(refused))
    return form
