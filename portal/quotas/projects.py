"""Create a project together with its quota."""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from agents.contract.message import Message
from portal.accounts.models import Project
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.quotas.models import Quota


def project_create(*, slug: str, name: str = "", actor: str) -> Project:
    """A project without members, and its quota. Raises Refused(slug_invalid, slug_taken,
    name_invalid)."""
    if not name.isprintable():
        raise Refused(ErrorCode.NAME_INVALID, "A name has 1 to 100 characters", "name")
    project = Project(slug=slug, name=name or slug)
    try:
        project.clean_fields()
    except ValidationError as error:
        sentence = (
            "A slug has 1 to 40 characters of a-z, 0-9 and hyphens. "
            "A name has at most 100 characters"
        )
        raise Refused(ErrorCode.SLUG_INVALID, sentence, "slug") from error
    units = settings.PLATFORM.default_quota_units
    try:
        with transaction.atomic():
            project.save()
            Quota.objects.create(project=project, limit_units=units, guard_units=units)
            audit_record(
                actor=actor,
                action=AuditAction.PROJECT_CREATE,
                noun="project",
                noun_id=project.slug,
                project=project,
                after={"slug": slug, "name": project.name, "limit_units": units},
            )
    except IntegrityError as error:
        taken = "A project %(slug)s exists already. Choose another slug"
        raise Refused(ErrorCode.SLUG_TAKEN, Message(taken, slug=repr(slug)), "slug") from error
    return project
