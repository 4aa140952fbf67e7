"""Reads secrets: their names for people, their values for the node of a job alone.

A name in a request means the secret of the job's owner, or else that of its project.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cryptography.fernet import InvalidToken
from django.db.models import Q, QuerySet

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_worker
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_secrets.models import JOB_SECRET_SEAL, JobSecret

MISSING_BATCH = 500


@dataclass(frozen=True, slots=True)
class FoundSecrets:
    """Values by name, and the rows that they are of."""

    values: Mapping[str, str] = field(repr=False)
    rows: QuerySet[JobSecret]
    unreadable: tuple[str, ...] = ()
    """Names whose values were sealed with a key that this portal does not have."""


def secrets_of(owner: User | Project) -> QuerySet[JobSecret]:
    """The secrets of a user, or of a project."""
    if isinstance(owner, User):
        return JobSecret.objects.filter(user=owner)
    return JobSecret.objects.filter(project=owner)


def visible_secrets(user: User, project: Project) -> QuerySet[JobSecret]:
    """Of a project, for those who may use them in jobs. Raises Refused(forbidden)."""
    if not is_project_worker(user, project.pk):
        raise Refused(ErrorCode.FORBIDDEN, "Only members of a project see its secrets")
    return secrets_of(project)


def usable_names(user: User, project: int) -> list[str]:
    """What a request of this user in the project may name."""
    rows = JobSecret.objects.filter(Q(user=user) | Q(project=project))
    return sorted(set(rows.values_list("name", flat=True)))


def require_secret_names(user: User, project: Project, names: Iterable[str]) -> None:
    """Raises Refused(secret_unknown) if one of them exists neither for the user nor for the
    project. One query if there are any names."""
    wanted = list(names)
    if not wanted:
        return
    known = usable_names(user, project.pk)
    for name in wanted:
        if name not in known:
            sentence = Message(
                "There is no secret %(name)s, neither of yours nor of %(project)s. Set it first: "
                "tessera secrets set %(name)s",
                name=name,
                project=project.slug,
            )
            raise Refused(ErrorCode.SECRET_UNKNOWN, sentence, "secrets")


def secret_values(*, owner: int, project: int, names: Iterable[str]) -> FoundSecrets:
    """For the node of a job. One query."""
    rows = JobSecret.objects.filter(Q(user=owner) | Q(project=project), name__in=list(names))
    # The owner's own come last, and win.
    chosen = {row.name: row for row in sorted(rows, key=lambda row: row.user_id is not None)}
    values, unreadable = {}, []
    for name, row in chosen.items():
        try:
            values[name] = JOB_SECRET_SEAL.unseal(row.sealed)
        except InvalidToken:
            unreadable.append(name)
    used = JobSecret.objects.filter(pk__in=[chosen[name].pk for name in values])
    return FoundSecrets(values, used, tuple(unreadable))


def known_secrets(owners: Iterable[str], projects: Iterable[str]) -> set[tuple[str, str, str]]:
    """(user, project, name) of what these have, by username and slug; one of both is "". One
    query."""
    rows = JobSecret.objects.filter(
        Q(user__username__in=sorted(set(owners))) | Q(project__slug__in=sorted(set(projects)))
    )
    columns = rows.values_list("user__username", "project__slug", "name")
    return {(user or "", project or "", name) for user, project, name in columns}
