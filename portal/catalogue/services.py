"""Change templates and image policies. Every service is one transaction with its audit entry."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from agents.contract.image_reference import pattern_problem
from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.rights import require_platform_admin, require_project_admin
from portal.accounts.selectors import is_project_worker
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.catalogue.models import ImagePolicy, ImageRule, Template
from portal.catalogue.selectors import may_change_template
from portal.error_codes import ErrorCode
from portal.errors import Refused
from scheduler.core.request import RequestLimits, parse_request, request_as_dict
from scheduler.core.request_fields import FIELDS, SPELLINGS

# Fields of a single job, which no template stores.
PER_JOB_FIELDS = frozenset({"project", "begin_at", "begin_in", "after"})
NAME_PATTERN = re.compile(r"[^\W_][\w .()+-]{0,62}")
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
    """Save a request as a template of a project, or with None as a shared one.

    PER_JOB_FIELDS are dropped from the request. Raises Refused(forbidden, name_invalid, name_taken,
    too_many) and RequestRefused.
    """
    _require_may_add(actor, project)
    name, description = _valid_name(name), _valid_description(description)
    fields = _valid_request(request, project, limits)
    row = Template(
        project=project, name=name, description=description, request=fields, author=actor.username
    )
    try:
        with transaction.atomic():
            if Template.objects.filter(project=project).count() >= MAX_TEMPLATES:
                sentence = Message(
                    "There are %(n)s templates already. Delete one first", n=MAX_TEMPLATES
                )
                raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "", 409)
            row.save(force_insert=True)
            _audit(AuditAction.TEMPLATE_SAVE, row, actor, {}, _facts(row))
    except IntegrityError as error:
        sentence = Message(
            "A template named %(name)s exists already. Choose another name", name=repr(name)
        )
        raise Refused(ErrorCode.NAME_TAKEN, sentence, "name") from error
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
    """Change the given attributes. `version`: the one that the caller has read. Raises
    Refused(forbidden, not_found, name_invalid, name_taken, version_stale) and RequestRefused."""
    _require_may_change(actor, template)
    try:
        with transaction.atomic():
            row = _lock(template)
            _require_version(row, version)
            before = _facts(row)
            row.name = row.name if name is None else _valid_name(name)
            row.description = (
                row.description if description is None else _valid_description(description)
            )
            if request is not None:
                row.request = _valid_request(request, row.project, limits)
            row.version += 1
            row.save()
            _audit(AuditAction.TEMPLATE_CHANGE, row, actor, before, _facts(row))
    except IntegrityError as error:
        sentence = Message(
            "A template named %(name)s exists already. Choose another name", name=repr(name)
        )
        raise Refused(ErrorCode.NAME_TAKEN, sentence, "name") from error
    return row


def template_delete(*, template: Template, actor: User, version: int | None = None) -> None:
    """Jobs that used the template go on. Raises Refused(forbidden, not_found, version_stale)."""
    _require_may_change(actor, template)
    with transaction.atomic():
        row = _lock(template)
        _require_version(row, version)
        _audit(AuditAction.TEMPLATE_DELETE, row, actor, _facts(row), {})
        row.delete()


def image_policy_set(
    *, project: Project, actor: User, rule: ImageRule, patterns: Iterable[str], version: int | None
) -> ImagePolicy:
    """Set which images new jobs of the project may use; existing jobs are not affected.

    `version`: the one that the caller has read, 0 if there is no policy yet, None to skip the
    check. Raises Refused(forbidden, pattern_invalid, list_empty, version_stale).
    """
    require_platform_admin(actor)
    listed = _valid_patterns(patterns)
    if rule is ImageRule.LISTED and not listed:
        sentence = "List at least one image, or allow any image"
        raise Refused(ErrorCode.LIST_EMPTY, sentence, "patterns")
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        row = ImagePolicy.objects.filter(project=project).first()
        if version is not None and version != (row.version if row else 0):
            sentence = "This list changed since you read it. Read it again"
            raise Refused(ErrorCode.VERSION_STALE, sentence)
        row = row or ImagePolicy(project=project, version=0)
        before = {"rule": row.rule, "patterns": row.patterns}
        row.rule, row.patterns, row.version = rule, listed, row.version + 1
        row.save()
        audit_record(
            actor=actor.username,
            action=AuditAction.IMAGE_POLICY_SET,
            noun="image_policy",
            noun_id=project.slug,
            project=project,
            before=before,
            after={"rule": str(rule), "patterns": listed},
        )
    return row


def _require_may_add(by: User, project: Project | None) -> None:
    if project is None:
        require_platform_admin(by)
    elif not is_project_worker(by, project.pk):
        raise Refused(
            ErrorCode.FORBIDDEN,
            Message("Only members of %(project)s may save templates in it", project=project.slug),
        )


def _require_may_change(by: User, template: Template) -> None:
    if may_change_template(by, template):
        return
    if template.project is None:
        require_platform_admin(by)
    else:
        require_project_admin(by, template.project)


def _lock(template: Template) -> Template:
    row = Template.objects.select_for_update(no_key=True, of=("self",)).filter(pk=template.pk)
    locked = row.select_related("project").first()
    if locked is None:
        raise Refused(ErrorCode.NOT_FOUND, "This template no longer exists")
    return locked


def _require_version(row: Template, version: int | None) -> None:
    if version is not None and version != row.version:
        sentence = "This template changed since you read it. Read it again"
        raise Refused(ErrorCode.VERSION_STALE, sentence)


def _valid_request(
    request: Mapping[str, Any], project: Project | None, limits: RequestLimits
) -> dict[str, Any]:
    """The canonical request, validated as for a submit, without PER_JOB_FIELDS. Amounts that follow
    the device are stored only if they were written down."""
    fields = {name: value for name, value in request.items() if name not in PER_JOB_FIELDS}
    fields |= {"project": project.slug if project else "any"}
    fields.setdefault("name", "job")
    canonical = request_as_dict(parse_request(fields, limits))
    written = {spelling: field.name for spelling, field in SPELLINGS.items()}
    chosen = {written.get(name, name) for name in fields}
    left_out = PER_JOB_FIELDS | {f.name for f in FIELDS if f.follows_device} - chosen
    return {name: value for name, value in canonical.items() if name not in left_out}


def _valid_name(name: str) -> str:
    name = name.strip()
    if not NAME_PATTERN.fullmatch(name):
        sentence = "A name has 1 to 63 letters, digits, spaces or .()+-_"
        raise Refused(ErrorCode.NAME_INVALID, sentence, "name")
    return name


def _valid_description(text: str) -> str:
    text = " ".join(text.split())
    if len(text) > 200 or not text.isprintable():
        sentence = "A description has at most 200 printable characters"
        raise Refused(ErrorCode.DESCRIPTION_INVALID, sentence, "description")
    return text


def _valid_patterns(patterns: Iterable[str]) -> list[str]:
    listed = list(dict.fromkeys(filter(None, (p.strip() for p in patterns))))
    if len(listed) > MAX_PATTERNS:
        sentence = Message("List at most %(n)s images", n=MAX_PATTERNS)
        raise Refused(ErrorCode.PATTERN_INVALID, sentence, "patterns")
    for pattern in listed:
        if problem := pattern_problem(pattern):
            sentence = Message(
                "%(pattern)s is not an image name or pattern, such as registry/pytorch:2.*: "
                "%(problem)s",
                pattern=repr(pattern[:200]),
                problem=problem,
            )
            raise Refused(ErrorCode.PATTERN_INVALID, sentence, "patterns")
    return listed


def _facts(row: Template) -> dict[str, Any]:
    return {
        "project": row.project.slug if row.project else "",
        "name": row.name,
        "description": row.description,
        "request": row.request | {"env": sorted(row.request.get("env", {}))},
    }


def _audit(
    action: AuditAction, row: Template, by: User, before: dict[str, Any], after: dict[str, Any]
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
