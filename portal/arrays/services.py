"""What people do with an array as a whole."""

from portal.arrays.models import JobArray
from portal.arrays.selectors import members_of
from portal.jobs.services import job_cancel, jobs_cancel_waiting


def array_cancel(*, array: JobArray, actor: str) -> int:
    """Cancel all members: those that wait in one transaction, each of the others through stopping.
    Repeats are harmless, also at the same time. How many there were."""
    members = members_of(array)
    count = jobs_cancel_waiting(jobs=members, actor=actor)
    for job in list(members.allocated()):
        job_cancel(job=job, actor=actor)
        count += 1
    return count
