"""A form that is sent twice makes one job."""

from collections.abc import Callable

from django.urls import reverse

from portal.accounts.models import User
from portal.idempotency.services import StoredResponse, run_once
from portal.jobs.models import Job


def job_page_once(*, user: User, key: str, request_digest: str, submit: Callable[[], Job]) -> str:
    """The URL of the job that `submit` returns, or of its array. The same form again gets the
    first one's.

    Raises Refused(idempotency_mismatch), and what `submit` raises.
    """

    def respond() -> StoredResponse:
        return StoredResponse(302, {"Location": _address(submit())}, "")

    if not key:
        return respond().headers["Location"]
    stored = run_once(user=user, key=key[:128], request_digest=request_digest, run=respond)
    return stored.headers["Location"]


def _address(job: Job) -> str:
    if job.array_id is not None and job.is_array_row:
        return reverse("web:array", args=[f"A-{job.array_id}"])
    return reverse("web:job", args=[job.label])
