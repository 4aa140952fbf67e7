"""Who may open a terminal or SSH in a job, and whether they still may: the owner, as for its
ports."""

from dataclasses import dataclass
from uuid import UUID

from portal.accounts.models import User
from portal.accounts.selectors import live_tokens
from portal.accounts.sessions import live_sessions, session_user
from portal.api.ports.access import running_place, writing_caller
from portal.api.protocol.throttling import require_rate
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.owner_access import has_terminals, may_open_terminals
from portal.jobs.selectors import is_working_owner, job_visible


@dataclass(frozen=True, slots=True)
class TerminalCaller:
    """By what a terminal is open, a token or a browser's session, and in which job: what must stay
    so."""

    user_pk: int
    job_pk: int
    token_pk: int = 0
    session_key: str = ""


@dataclass(frozen=True, slots=True)
class TerminalPlace:
    """The replica, and the node that runs it."""

    node_id: UUID
    attempt_id: int
    rank: int


def terminal_admit(
    *, authorization: str, session_key: str, ref: str, rank: int
) -> tuple[TerminalCaller, TerminalPlace]:
    """Who calls, and where they may open a terminal: in their own job. `session_key`: of the
    browser; used where there is no token. Counts as a call of REST. Raises Refused, and
    AuthenticationFailed."""
    user, token_pk = session_user(session_key), 0
    if authorization or user is None or not user.is_active:
        user, token = writing_caller(authorization)
        token_pk, session_key = token.pk, ""
    else:
        require_rate(user)
    job = job_visible(user, ref)
    if not is_working_owner(user, job):
        sentence = "Only the owner of a job may open its terminals: whoever does acts as its owner"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    if not has_terminals(job):
        raise Refused(ErrorCode.FORBIDDEN, "Terminals are turned off for the jobs of this project")
    place = TerminalPlace(*running_place(job, rank), rank)
    return TerminalCaller(user.pk, job.pk, token_pk, session_key), place


def terminal_open(caller: TerminalCaller, place: TerminalPlace, action: AuditAction) -> None:
    """Write down that a terminal or SSH is opened, once nothing refuses it any more."""
    job = Job.objects.select_related("project").get(pk=caller.job_pk)
    audit_record(
        actor=User.objects.get(pk=caller.user_pk).username,
        action=action,
        noun="job",
        noun_id=job,
        project=job.project,
        after={"rank": place.rank},
    )


def may_stay_open(caller: TerminalCaller) -> bool:
    """Whether the token or the session still is one, its owner one who may open terminals in the
    job, and the job one that has them."""
    user = _caller_user(caller)
    if user is None or not user.is_active:
        return False
    rows = Job.objects.visible_to(user).filter(pk=caller.job_pk).select_related("project")
    job = rows.first()
    return job is not None and may_open_terminals(user, job)


def _caller_user(caller: TerminalCaller) -> User | None:
    if caller.token_pk:
        token = live_tokens().filter(pk=caller.token_pk).select_related("user").first()
        return token.user if token else None
    user = User.objects.filter(pk=caller.user_pk).first()
    return user if user and live_sessions([(user, caller.session_key)]) else None
