"""Who may reach an app, and where it is. One function decides, for the first request of a caller
and for all that is open."""

from collections.abc import Collection
from dataclasses import dataclass

from django.utils import timezone

from portal.accounts.models import Membership, User
from portal.accounts.selectors import WORKING_ROLES
from portal.accounts.sessions import live_sessions
from portal.apps.hosts import AppName
from portal.apps.models import AppGuest, AppToken, AppVisit
from portal.job_services.models import JobService
from portal.jobs.models import Job, Replica
from portal.tunnel.streams import Target
from scheduler.core.request import JobKind
from scheduler.core.request.apps import app_ports


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody at an app: by a visit, or by a token. The other one is 0."""

    name: AppName
    visit_pk: int = 0
    token_pk: int = 0


@dataclass(frozen=True, slots=True)
class AppAccess:
    """What a caller reaches, as of when it was looked up. `token_key`: of a program's token; empty
    for a browser."""

    caller: Caller
    username: str
    target: Target | None
    """None for a service, whose copies come and go: `portal.apps.service_pools` knows them."""
    token_key: str = ""


@dataclass(frozen=True, slots=True)
class AppRights:
    """What decides about some users and jobs, as of one moment."""

    workers: frozenset[tuple[int, int]]
    """User and project: who may run jobs where."""
    guests: frozenset[tuple[int, str, int]]
    """Job, app and user."""

    def may_visit(self, user: User, job: Job, app: str) -> bool:
        """Whether the user may open this app of the job while that runs.

        Its owner and the owner's guests, while the owner may run jobs in the project: nobody acts
        with the secrets of one who has left. Of another job than a notebook, all who may run jobs
        there: whoever opens a notebook acts as its owner.
        """
        if not user.is_active:
            return False
        is_own = user.pk == job.owner_id or (job.pk, app, user.pk) in self.guests
        if is_own and job.owner.is_active and (job.owner_id, job.project_id) in self.workers:
            return True
        return job.kind != JobKind.NOTEBOOK and (user.pk, job.project_id) in self.workers

    def may_call(self, user: User, service: JobService) -> bool:
        """Whether the user may call the service: those who may run jobs in its project."""
        return bool(user.is_active and (user.pk, service.project_id) in self.workers)


def app_rights(
    users: Collection[User], jobs: Collection[Job], services: Collection[JobService] = ()
) -> AppRights:
    """Two statements."""
    people = {user.pk for user in users} | {job.owner_id for job in jobs}
    projects = {job.project_id for job in jobs} | {each.project_id for each in services}
    working = Membership.objects.filter(
        user__in=people, project__in=projects, role__in=WORKING_ROLES
    )
    guests = AppGuest.objects.filter(job__in=[job.pk for job in jobs], user__in=people)
    return AppRights(
        frozenset(working.values_list("user_id", "project_id")),
        frozenset(guests.values_list("job_id", "app", "user_id")),
    )


def live_access(callers: Collection[Caller], *, are_open: bool = False) -> dict[Caller, AppAccess]:
    """Of those who may reach their app now. Six statements for any number of them, and one more if
    some are at services.

    `are_open`: their calls have begun. Those at a service that has ended since go on until its
    copies are stopped.
    """
    visitors, tokens = _visitors(callers), _tokens(callers)
    users = visitors | {caller: token.user for caller, token in tokens.items()}
    rows = Replica.objects.first_of_running_jobs()
    rows = rows.filter(attempt__job__in={caller.name.job_pk for caller in users})
    replicas = {row.attempt.job_id: row for row in rows.select_related("attempt__job__owner")}
    services = _services({caller.name.service_pk for caller in users}, are_open=are_open)
    jobs = [row.attempt.job for row in replicas.values()]
    rights = app_rights(users.values(), jobs, services.values())
    found = {}
    for caller, user in users.items():
        if service := services.get(caller.name.service_pk):
            key = _service_key(rights, user, service, caller, tokens.get(caller))
            if key is not None:
                found[caller] = AppAccess(caller, user.username, None, key)
            continue
        replica = replicas.get(caller.name.job_pk)
        if replica is None or replica.node_id is None:
            continue
        job, app, token = replica.attempt.job, caller.name.app, tokens.get(caller)
        port = job_apps(job).get(app)
        is_covered = token is None or token.covers(job, app)
        if port and is_covered and rights.may_visit(user, job, app):
            target = Target(replica.node_id, replica.attempt_id, 0, port)
            key = token.key if token else ""
            found[caller] = AppAccess(caller, user.username, target, key)
    return found


def _service_key(
    rights: AppRights, user: User, service: JobService, caller: Caller, token: AppToken | None
) -> str | None:
    """Of the token by which the caller may call the service, "" without one; None if they may
    not."""
    is_covered = token is None or token.covers_service(service)
    if service.name != caller.name.app or not is_covered or not rights.may_call(user, service):
        return None
    return token.key if token else ""


def may_visit(user: User, job: Job, app: str) -> bool:
    """Whether the user may open this app of the job while that runs."""
    return app_rights([user], [job]).may_visit(user, job, app)


def may_call(user: User, service: JobService) -> bool:
    """Whether the user may call the service."""
    return app_rights([user], [], [service]).may_call(user, service)


def job_apps(job: Job) -> dict[str, int]:
    """The ports of its apps by their names."""
    return app_ports(job.request.get("apps", ()))


def _services(keys: set[int], *, are_open: bool) -> dict[int, JobService]:
    """Those that take new calls; with `are_open`, also those that answer the calls they have."""
    keys = keys - {0}
    rows = JobService.objects.to_drive() if are_open else JobService.objects.live()
    return rows.only("pk", "name", "project_id").in_bulk(keys) if keys else {}


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
        and visit.name == caller.name
    }


def _tokens(callers: Collection[Caller]) -> dict[Caller, AppToken]:
    """Those that have not expired."""
    pks = {caller.token_pk for caller in callers if caller.token_pk}
    if not pks:
        return {}
    rows = AppToken.objects.filter(pk__in=pks, expires_at__gt=timezone.now())
    tokens: dict[int, AppToken] = rows.select_related("user").in_bulk()
    return {caller: tokens[caller.token_pk] for caller in callers if caller.token_pk in tokens}
