"""Reads registries: their addresses for people, a password for the node that pulls alone."""

from dataclasses import dataclass

from cryptography.fernet import InvalidToken
from django.db.models import QuerySet

from agents.contract.registries import RegistryCredential, registry_of
from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_worker
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.registries.models import REGISTRY_SEAL, Registry


@dataclass(frozen=True, slots=True)
class FoundCredential:
    """A project's credential for an image."""

    row: Registry
    credential: RegistryCredential | None
    """None if it was sealed with a key that this portal does not have."""


def registries_of(project: Project) -> QuerySet[Registry]:
    return Registry.objects.filter(project=project)


def visible_registries(user: User, project: Project) -> QuerySet[Registry]:
    """Of a project, for those whose jobs pull with them. Raises Refused(forbidden)."""
    if not is_project_worker(user, project.pk):
        raise Refused(ErrorCode.FORBIDDEN, "Only members of a project see its registries")
    return registries_of(project)


def credential_for(*, project: int, image: str) -> FoundCredential | None:
    """For the node that pulls the image for a job of the project. One query."""
    rows = {row.address: row for row in Registry.objects.filter(project=project)}
    address = registry_of(image, rows)
    if address is None:
        return None
    row = rows[address]
    try:
        password = REGISTRY_SEAL.unseal(row.sealed)
    except InvalidToken:
        return FoundCredential(row, None)
    return FoundCredential(row, RegistryCredential(row.address, row.user, password))
