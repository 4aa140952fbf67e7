"""Who may reach an app, and where it is. One function decides, for the first request of a caller
and for all that is open."""

from collections.abc import Collection
from dataclasses import dataclass

from portal.accounts.models import ApiToken, Membership, TokenScope, User
from portal.accounts.selectors import WORKING_ROLES, live_tokens, role_in
from portal.accounts.sessions import live_sessions
from portal.apps.hosts import AppName
from portal.apps.models import AppVisit
from portal.jobs.models import Job, Replica
from portal.tunnel.streams import Target
from scheduler.core.request import JobKind
from scheduler.core.request.apps import app_ports


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody at an app: by a visit, or by a token. The other one is empty."""

    name: AppName
    visit_pk: int = 0
    token_digest: str = ""


@dataclass(frozen=True, slots=True)
class AppAccess:
    """What a caller reaches, as of when it was looked up."""

    caller: Caller
    username: str
    target: Target


def live_access(callers: Collection[Caller]) -> dict[Caller, AppAccess]:
    """Of those who may reach their app now. Five statements for any number of them."""
    users = _visitors(callers) | _token_users(callers)
    names = {caller.name.job_pk for caller in users}
    rows = Replica.objects.first_of_running_jobs().filter(attempt__job__in=names)
    replicas = {row.attempt.job_id: row for row in rows.select_related("attempt__job")}
    projects = {row.attempt.job.project_id for row in replicas.values()}
    roles = Membership.objects.filter(
        user__in={user.pk for user in users.values()}, project__in=projects, role__in=WORKING_ROLES
    )
    members = set(roles.values_list("user_id", "project_id"))
    found = {}
    for caller, user in users.items():
        replica = replicas.get(caller.name.job_pk)
        if replica is None or replica.node_id is None:
            continue
        job = replica.attempt.job
        port = job_apps(job).get(caller.name.app)
        if port and _may_visit(user, job, is_worker=(user.pk, job.project_id) in members):
            found[caller] = AppAccess(
                caller, user.username, Target(replica.node_id, replica.attempt_id, 0, port)
            )
    return found


def may_visit(user: User, job: Job) -> bool:
    """Whether the user may open the apps of the job while it runs."""
    is_worker = role_in(user, job.project_id) in WORKING_ROLES
    return _may_visit(user, job, is_worker=is_worker)


def job_apps(job: Job) -> dict[str, int]:
    """The ports of its apps by their names."""
    return app_ports(job.request.get("apps", ()))


def _may_visit(user: User, job: Job, *, is_worker: bool) -> bool:
    """Those who may run jobs in its project; of a notebook, its owner alone: whoever opens it acts
    with the owner's secrets."""
    is_theirs = job.kind != JobKind.NOTEBOOK or job.owner_id == user.pk
    return bool(user.is_active and is_worker and is_theirs)


def _visitors(callers: Collection[Caller]) -> dict[Caller, User]:
    """Those whose session of the portal lives."""
    pks = {caller.visit_pk for caller in callers if caller.visit_pk}
    if not pks:
        return {}
    visits = AppVisit.objects.filter(pk__in=pks).select_related("user").in_bulk()
    live = live_sessions([(visit.user, visit.session_key) for visit in visits.values()])
    return {
        caller: visit.user
        for caller in callers
        if (visit := visits.get(caller.visit_pk))
        and (visit.user_id, visit.session_key) in live
        and AppName(visit.job_id, visit.app) == caller.name
    }


def _token_users(callers: Collection[Caller]) -> dict[Caller, User]:
    digests = {caller.token_digest for caller in callers if caller.token_digest}
    if not digests:
        return {}
    rows = live_tokens().filter(pk__in=digests, scope=TokenScope.APPS).select_related("user")
    tokens: dict[str, ApiToken] = {row.digest: row for row in rows}
    return {
        caller: tokens[caller.token_digest].user
        for caller in callers
        if caller.token_digest in tokens
    }
