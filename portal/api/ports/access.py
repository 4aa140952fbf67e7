"""Who may open a port of a job, and whether they still may."""

from dataclasses import dataclass
from uuid import UUID

from portal.accounts.models import ApiToken, TokenScope, User
from portal.accounts.selectors import live_tokens
from portal.api.protocol.authentication import BearerToken
from portal.api.protocol.permissions import SCOPE_ORDER, HasTokenScope
from portal.api.protocol.throttling import require_rate
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import is_working_owner, job_visible, replica_of
from portal.tunnel.streams import Target
from scheduler.core.model.states import ReplicaStatus


@dataclass(frozen=True, slots=True)
class PortCaller:
    """With which token a port is open, and of which job: what must stay so."""

    user_pk: int
    token_pk: int
    job_pk: int


def port_admit(*, authorization: str, ref: str, rank: int, port: int) -> tuple[PortCaller, Target]:
    """Who calls, and what they may open: a port of their own job. `ref`: "J-12" or "12". Counts as
    a call of REST. Raises Refused, and AuthenticationFailed."""
    user, token = writing_caller(authorization)
    job = job_visible(user, ref)
    if not is_working_owner(user, job):
        sentence = "Only the owner of a job may open its ports: whoever does acts as its owner"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    target = Target(*running_place(job, rank), rank, port)
    return PortCaller(user.pk, token.pk, job.pk), target


def port_open(caller: PortCaller, target: Target) -> None:
    """Write down that the port is opened, once nothing refuses it any more."""
    job = Job.objects.select_related("project").get(pk=caller.job_pk)
    audit_record(
        actor=User.objects.get(pk=caller.user_pk).username,
        action=AuditAction.PORT_OPEN,
        noun="job",
        noun_id=job,
        project=job.project,
        after={"rank": target.rank, "port": target.port},
    )


def writing_caller(authorization: str) -> tuple[User, ApiToken]:
    """Whose token it is, if it may change something. Counts as a call of REST. Raises Refused, and
    AuthenticationFailed."""
    caller = BearerToken().authenticate_header_value(authorization.encode())
    if caller is None:
        raise Refused(ErrorCode.NOT_AUTHENTICATED, "Send an API token: Authorization: Bearer …")
    user, token = caller
    require_rate(user)
    if SCOPE_ORDER.index(TokenScope(token.scope)) < SCOPE_ORDER.index(TokenScope.WRITE):
        raise Refused(ErrorCode.SCOPE_MISSING, HasTokenScope.message)
    return user, token


def may_stay_open(caller: PortCaller) -> bool:
    """Whether the token still is one, and its owner still one who may open the job's ports."""
    token = live_tokens().filter(pk=caller.token_pk).select_related("user").first()
    if token is None:
        return False
    job = Job.objects.visible_to(token.user).filter(pk=caller.job_pk).first()
    return token.user.is_active and job is not None and is_working_owner(token.user, job)


def running_place(job: Job, rank: int) -> tuple[UUID, int]:
    """The node and the attempt of the replica that runs. Raises Refused."""
    replica = replica_of(job, rank=rank)
    if replica.node_id is None or replica.status != ReplicaStatus.RUNNING:
        raise Refused(ErrorCode.NOT_RUNNING, "This replica does not run now", "rank")
    return replica.node_id, replica.attempt_id
