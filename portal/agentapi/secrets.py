"""The secrets of a replica, for the node that is to run it. Nothing of them is logged or kept."""

from uuid import UUID

from django.db import transaction

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.job_secrets import SecretsResponse, SecretValue
from agents.contract.registries import PullCredentialResponse
from portal.inventory.credentials import CREDENTIALS, node_authenticate
from portal.job_secrets.gang_keys import gang_key
from portal.job_secrets.selectors import secret_values
from portal.job_secrets.services import secrets_used
from portal.jobs.models import Attempt, DesiredState, Replica
from portal.jobs.preflights import attempt_image, attempt_request
from portal.registries.selectors import credential_for
from portal.registries.services import registry_used
from scheduler.core.request import parse_stored_request
from scheduler.core.request.secrets import secret_names

STARTING = (DesiredState.PREPARE, DesiredState.RUN)


def secrets_deliver(*, authorization: str, epoch: int, replica: str) -> SecretsResponse:
    """Those that its request names, now, and the key of its gang. Raises ContractError for a
    replica that is not on the calling node, or not to run there any more."""
    with transaction.atomic():
        attempt = _starting_attempt(authorization, epoch, replica)
        job = attempt.job
        request = attempt_request(attempt, parse_stored_request(job.request))
        names = secret_names(request.secrets)
        found = secret_values(owner=job.owner_id, project=job.project_id, names=names)
        secrets_used(rows=found.rows)
    present = {*found.values, *found.unreadable}
    own = (SecretValue(name, value) for name, value in found.values.items())
    return SecretsResponse(
        secrets=(*own, *gang_key(request, attempt.pk)),
        missing=tuple(name for name in names if name not in present),
        unreadable=found.unreadable,
    )


def pull_credential_deliver(
    *, authorization: str, epoch: int, replica: str
) -> PullCredentialResponse:
    """That of its project for the registry of its image. Raises ContractError as above."""
    with transaction.atomic():
        attempt = _starting_attempt(authorization, epoch, replica)
        image = attempt_image(attempt)
        found = credential_for(project=attempt.job.project_id, image=image)
        if found is None:
            return PullCredentialResponse()
        if found.credential is None:
            return PullCredentialResponse(unreadable=found.row.address)
        registry_used(row=found.row)
    return PullCredentialResponse(found.credential)


def _starting_attempt(authorization: str, epoch: int, replica: str) -> Attempt:
    node = node_authenticate(CREDENTIALS, authorization=authorization, epoch=epoch)
    rows = Replica.objects.filter(
        pk=_key(replica), node=node, desired_state__in=STARTING, attempt__ended_at=None
    )
    row = rows.select_related("attempt__job").first()
    if row is None:
        raise _unknown()
    return row.attempt


def _key(replica: str) -> UUID:
    try:
        return UUID(replica)
    except ValueError:
        raise _unknown() from None


def _unknown() -> ContractError:
    sentence = "this node has no such replica to start: it gets no secrets"
    return ContractError(ContractErrorCode.REPLICA_UNKNOWN, sentence)
