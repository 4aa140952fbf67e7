"""Change volumes, and note which jobs use them. A change is one transaction with its audit line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from agents.contract.message import Message
from agents.contract.volumes import ROOT_NAME, driver_subpath_problem, subpath_problem
from portal.accounts.models import Project, User
from portal.accounts.rights import require_platform_admin
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.volumes.models import Volume, VolumeUse
from portal.volumes.selectors import node_roots, require_volumes
from scheduler.core.model.states import JOB_FINAL
from scheduler.core.request.values import VolumeRequest
from scheduler.core.request.volumes import VOLUME_NAME

MAX_QUOTA = 2**50


@dataclass(frozen=True, slots=True)
class VolumeValues:
    """What an admin sets of a volume, besides its name and where it lies."""

    projects: tuple[Project, ...]
    description: str = ""
    read_only: bool = False
    quota_mib: int = 0
    quota_files: int = 0


def volume_create(
    *, actor: User, name: str, root: str, subpath: str = "", values: VolumeValues
) -> Volume:
    """Raises Refused(forbidden, name_invalid, name_taken, root_invalid, path_invalid, list_empty,
    limit_invalid, description_invalid)."""
    require_platform_admin(actor)
    if not re.fullmatch(VOLUME_NAME, name):
        sentence = "A name has 1 to 63 small letters, digits and hyphens, such as imagenet"
        raise Refused(ErrorCode.NAME_INVALID, sentence, "name")
    if not re.fullmatch(ROOT_NAME, root):
        why = "Write the name of a root as the policy of a node has it, such as datasets"
        raise Refused(ErrorCode.ROOT_INVALID, why, "root")
    is_of_driver = any(each.driver for each in node_roots() if each.root == root)
    wrong = driver_subpath_problem if is_of_driver else subpath_problem
    if problem := wrong(subpath):
        raise Refused(ErrorCode.PATH_INVALID, problem, "subpath")
    row = Volume(name=name, root=root, subpath=subpath)
    _set(row, values)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            row.projects.set(values.projects)
            _audit(AuditAction.VOLUME_CREATE, row, actor, {}, volume_facts(row))
    except IntegrityError as error:
        taken = Message(
            "A volume named %(name)s exists already. Choose another name", name=repr(name)
        )
        raise Refused(ErrorCode.NAME_TAKEN, taken, "name") from error
    return row


def volume_update(
    *, volume: Volume, actor: User, values: VolumeValues, version: int | None = None
) -> Volume:
    """A volume keeps its name and its place. What its jobs have of it does not change under them.

    Raises Refused(forbidden, not_found, version_stale, volume_in_use) and what `volume_create`
    raises of these values."""
    require_platform_admin(actor)
    with transaction.atomic():
        row = _lock(volume, version)
        before = volume_facts(row)
        live = _live_uses(row)
        if row.read_only != values.read_only and live.exists():
            raise _in_use(row, live, Message("change its access"), "read_only")
        kept = {project.pk for project in values.projects}
        if (gone := live.exclude(job__project__in=kept)).exists():
            raise _in_use(row, gone, Message("take it from their project"), "projects")
        _set(row, values)
        row.version += 1
        row.save()
        row.projects.set(values.projects)
        _audit(AuditAction.VOLUME_CHANGE, row, actor, before, volume_facts(row))
    return row


def volume_delete(*, volume: Volume, actor: User, version: int | None = None) -> None:
    """Forget the volume; its files stay where they are. Raises Refused(forbidden, not_found,
    version_stale, volume_in_use)."""
    require_platform_admin(actor)
    with transaction.atomic():
        row = _lock(volume, version)
        if (live := _live_uses(row)).exists():
            raise _in_use(row, live, Message("delete it"), "")
        _audit(AuditAction.VOLUME_DELETE, row, actor, volume_facts(row), {})
        row.delete()


def volumes_take(jobs: Sequence[Job], volume_requests: Sequence[tuple[VolumeRequest, ...]]) -> None:
    """Note the volumes of new jobs, in the transaction that creates them. Their rows are locked, so
    that none is deleted or taken from the project meanwhile. Raises Refused(volume_unknown)."""
    pairs = [(job, each) for job, each in zip(jobs, volume_requests, strict=True) if each]
    if not pairs:
        return
    names = {request.volume for _, requests in pairs for request in requests}
    locked = Volume.objects.filter(name__in=names).order_by("pk").select_for_update(no_key=True)
    list(locked.values_list("pk"))
    projects = {job.project_id: job.project for job, _ in pairs}
    found = {
        key: require_volumes(project, (r for job, rs in pairs if job.project_id == key for r in rs))
        for key, project in projects.items()
    }
    uses = []
    for job, requests in pairs:
        for request in requests:
            row = found[job.project_id][request.volume]
            is_read = request.read_only or row.read_only
            uses.append(VolumeUse(job=job, volume=row, path=request.path, read_only=is_read))
    VolumeUse.objects.bulk_create(uses)


def volume_facts(row: Volume) -> dict[str, Any]:
    """As the audit trail shows it."""
    return {
        "name": row.name,
        "root": row.root,
        "subpath": row.subpath,
        "read_only": row.read_only,
        "projects": sorted(row.projects.values_list("slug", flat=True)),
        "description": row.description,
        "quota_mib": row.quota_mib,
        "quota_files": row.quota_files,
    }


def _set(row: Volume, values: VolumeValues) -> None:
    description = " ".join(values.description.split())
    if len(description) > 200 or not description.isprintable():
        sentence = "A description has at most 200 printable characters"
        raise Refused(ErrorCode.DESCRIPTION_INVALID, sentence, "description")
    if not values.projects:
        raise Refused(ErrorCode.LIST_EMPTY, "Name at least one project", "projects")
    for field in ("quota_mib", "quota_files"):
        if not 0 <= getattr(values, field) <= MAX_QUOTA:
            raise Refused(ErrorCode.LIMIT_INVALID, "Write a number from 0, for no limit", field)
    row.description, row.read_only = description, values.read_only
    row.quota_mib, row.quota_files = values.quota_mib, values.quota_files


def _lock(volume: Volume, version: int | None) -> Volume:
    row = Volume.objects.select_for_update().filter(pk=volume.pk).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "This volume no longer exists")
    if version is not None and version != row.version:
        sentence = "This volume changed since you read it. Read it again"
        raise Refused(ErrorCode.VERSION_STALE, sentence)
    return row


def _live_uses(row: Volume) -> Any:
    """Of jobs that have not ended."""
    return row.uses.exclude(job__status__in=sorted(map(str, JOB_FINAL))).order_by("job_id")


def _in_use(row: Volume, uses: Any, what: Message, field: str) -> Refused:
    jobs = [use.job.label for use in uses.select_related("job")[:4]]
    names = ", ".join(dict.fromkeys(jobs[:3])) + (", …" if len(jobs) > 3 else "")
    sentence = Message(
        "Jobs use %(volume)s: %(jobs)s. Cancel them or wait for their end, then %(what)s",
        volume=row.name,
        jobs=names,
        what=what,
    )
    return Refused(ErrorCode.VOLUME_IN_USE, sentence, field, 409)


def _audit(
    action: AuditAction, row: Volume, by: User, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    audit_record(
        actor=by.username,
        action=action,
        noun="volume",
        noun_id=row.name,
        project=None,
        before=dict(before),
        after=dict(after),
    )
