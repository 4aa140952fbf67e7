"""Requests that an admin raise a limit, made from waiting jobs: who decides, and what is open.

They are made and decided in `portal.submission.limit_requests`, which knows jobs.
"""

from django.db.models import QuerySet

from portal.accounts.models import Membership, Role, User
from portal.quotas.models import LimitRequest, LimitRequestStatus


def limit_requests_to_decide(user: User) -> QuerySet[LimitRequest]:
    """The open requests that this user decides, oldest first: all for platform admins; those for a
    user's own quota also for admins of the project."""
    rows = LimitRequest.objects.filter(status=LimitRequestStatus.OPEN)
    rows = rows.select_related("project", "asker", "user", "job").order_by("id")
    if user.is_platform_admin:
        return rows
    led = Membership.objects.filter(user=user, role=Role.ADMIN).values("project_id")
    return rows.filter(project_id__in=led, user__isnull=False)


def last_limit_request(job_id: int) -> LimitRequest | None:
    """The newest request made from a job, whatever came of it."""
    rows = LimitRequest.objects.filter(job_id=job_id).select_related("project", "user")
    return rows.order_by("-id").first()
