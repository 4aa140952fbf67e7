"""Change templates and image policies. Every function is one transaction with its audit line."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from agents.contract.phrase import Phrase
from portal.accounts.models import Project, User
from portal.accounts.rights import require_platform_admin, require_project_admin
from portal.accounts.selectors import is_project_admin, role_in
from portal.audit.services import audit_record
from portal.catalogue.models import ImagePolicy, ImageRule, Template
from portal.catalogue.selectors import WORKING, may_change_template
from portal.errors import Refused
from scheduler.core.request import RequestLimits, parse_request, request_as_dict

# What a job has of its own: no template keeps it.
PER_JOB_FIELDS = frozenset({"project", "begin_at", "begin_in", "after"})
NAME_PATTERN = re.compile(r"[^\W_][\w .()+-]{0,62}")
IMAGE_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._/:@*-]{0,199}")
MAX_PATTERNS, MAX_TEMPLATES = 100, 200


def template_save(
    *,
    actor: User,
    name: str,
    request: Mapping[str, Any],
    limits: RequestLimits,
    project: Project | None = None,
    description: str = "",
) -> Template:
    """A new template of a project, or with None of everybody.

    `request` is what a job would be submitted with; what a job has of its own is left out. Raises
    Refused(forbidden, name_invalid, name_taken, too_many) and RequestRefused.
    """
    _require_may_add(actor, project)
    name, description = _named(name), _described(description)
    asked = _checked(request, project, limits)
    row = Template(
        project=project, name=name, description=description, request=asked, made_by=actor.username
    )
    try:
        with transaction.atomic():
            if Template.objects.filter(project=project).count() >= MAX_TEMPLATES:
                sentence = Phrase(
                    "There are %(n)s templates here. Delete one first", n=MAX_TEMPLATES
                )
                raise Refused("too_many", sentence, "", 409)
            row.save(force_insert=True)
            _audit("template_save", row, actor, {}, _facts(row))
    except IntegrityError as taken:
        sentence = Phrase(
            "There is a template %(name)s here already. Choose another name", name=repr(name)
        )
        raise Refused("name_taken", sentence, "name", 409) from taken
    return row


def template_update(
    *,
    template: Template,
    actor: User,
    limits: RequestLimits,
    version: int | None = None,
    name: str | None = None,
    description: str | None = None,
    request: Mapping[str, Any] | None = None,
) -> Template:
    """Change what is named. `version`: the one that the caller has seen. Raises Refused(forbidden,
    not_found, name_invalid, name_taken, version_stale) and RequestRefused."""
    _require_may_change(actor, template)
    try:
        with transaction.atomic():
            row = _locked(template)
            _require_seen(row, version)
            before = _facts(row)
            row.name = row.name if name is None else _named(name)
            row.description = row.description if description is None else _described(description)
            if request is not None:
                row.request = _checked(request, row.project, limits)
            row.version += 1
            row.save()
            _audit("template_change", row, actor, before, _facts(row))
    except IntegrityError as taken:
        sentence = Phrase(
            "There is a template %(name)s here already. Choose another name", name=repr(name)
        )
        raise Refused("name_taken", sentence, "name", 409) from taken
    return row


def template_delete(*, template: Template, actor: User, version: int | None = None) -> None:
    """Jobs that were started from it go on. Raises Refused(forbidden, not_found, version_stale)."""
    _require_may_change(actor, template)
    with transaction.atomic():
        row = _locked(template)
        _require_seen(row, version)
        _audit("template_delete", row, actor, _facts(row), {})
        row.delete()


def image_policy_set(
    *, project: Project, actor: User, rule: ImageRule, patterns: Iterable[str], version: int | None
) -> ImagePolicy:
    """Say which images new jobs of the project may ask for; what waits and runs goes on. `version`
    is the one that the caller has seen, 0 where there is none yet; None takes whatever there is.

    Raises Refused(forbidden, pattern_invalid, list_empty, version_stale).
    """
    require_platform_admin(actor)
    wanted = _patterns(patterns)
    if rule is ImageRule.LISTED and not wanted:
        sentence = "Name at least one image, or let the project use any"
        raise Refused("list_empty", sentence, "patterns")
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        row = ImagePolicy.objects.filter(project=project).first()
        if version is not None and version != (row.version if row else 0):
            sentence = "Somebody changed this list since you read it. Read it again"
            raise Refused("version_stale", sentence, "", 412)
        row = row or ImagePolicy(project=project, version=0)
        before = {"rule": row.rule, "patterns": row.patterns}
        row.rule, row.patterns, row.version = rule, wanted, row.version + 1
        row.save()
        audit_record(
            actor=actor.username,
            action="image_policy_set",
            noun="image_policy",
            noun_id=project.slug,
            project=project,
            before=before,
            after={"rule": str(rule), "patterns": wanted},
        )
    return row


def _require_may_add(by: User, project: Project | None) -> None:
    if project is None:
        require_platform_admin(by)
    elif role_in(by, project.pk) not in WORKING and not is_project_admin(by, project.pk):
        raise Refused(
            "forbidden",
            Phrase("Only members of %(project)s save templates in it", project=project.slug),
            "",
            403,
        )


def _require_may_change(by: User, template: Template) -> None:
    if may_change_template(by, template):
        return
    if template.project is None:
        require_platform_admin(by)
    else:
        require_project_admin(by, template.project)


def _locked(template: Template) -> Template:
    row = Template.objects.select_for_update(no_key=True, of=("self",)).filter(pk=template.pk)
    found = row.select_related("project").first()
    if found is None:
        raise Refused("not_found", "There is no such template any more", "", 404)
    return found


def _require_seen(row: Template, version: int | None) -> None:
    if version is not None and version != row.version:
        sentence = "Somebody changed this template since you read it. Read it again"
        raise Refused("version_stale", sentence, "", 412)


def _checked(
    request: Mapping[str, Any], project: Project | None, limits: RequestLimits
) -> dict[str, Any]:
    """The request as it would be submitted, canonical, without what a job has of its own."""
    asked = {name: value for name, value in request.items() if name not in PER_JOB_FIELDS}
    asked |= {"project": project.slug if project else "any"}
    asked.setdefault("name", "job")
    told = request_as_dict(parse_request(asked, limits))
    return {name: value for name, value in told.items() if name not in PER_JOB_FIELDS}


def _named(name: str) -> str:
    name = name.strip()
    if not NAME_PATTERN.fullmatch(name):
        sentence = "A name has 1 to 63 letters, digits, spaces and .()+-_"
        raise Refused("name_invalid", sentence, "name")
    return name


def _described(text: str) -> str:
    text = " ".join(text.split())
    if len(text) > 200 or not text.isprintable():
        sentence = "A description has at most 200 characters that can be printed"
        raise Refused("description_invalid", sentence, "description")
    return text


def _patterns(patterns: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(filter(None, (p.strip() for p in patterns))))
    if len(wanted) > MAX_PATTERNS:
        sentence = Phrase("Name at most %(n)s images", n=MAX_PATTERNS)
        raise Refused("pattern_invalid", sentence, "patterns")
    for pattern in wanted:
        if not IMAGE_PATTERN.fullmatch(pattern):
            sentence = Phrase(
                "%(pattern)s is no name of an image, such as registry/pytorch:2.*",
                pattern=repr(pattern[:200]),
            )
            raise Refused("pattern_invalid", sentence, "patterns")
    return wanted


def _facts(row: Template) -> dict[str, Any]:
    return {
        "project": row.project.slug if row.project else "",
        "name": row.name,
        "description": row.description,
        "request": row.request | {"env": sorted(row.request.get("env", {}))},
    }


def _audit(
    action: str, row: Template, by: User, before: dict[str, Any], after: dict[str, Any]
) -> None:
    audit_record(
        actor=by.username,
        action=action,
        noun="template",
        noun_id=row.pk,
        project=row.project,
        before=before,
        after=after,
    )
