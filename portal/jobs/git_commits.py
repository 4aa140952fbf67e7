"""Which commit of a git repository the replicas of an attempt get: that of rank 0, or of an earlier
attempt of the job.

A branch may name another commit at any moment. Only rank 0 of a job's first attempt takes what it
means; the node reports the commit, and everyone else gets that one.
"""

from collections.abc import Iterable, Mapping

from agents.contract.git_source import DesiredGitCode, is_git_source
from portal.jobs.models import Attempt, Job, Replica
from scheduler.core.request import JobRequest
from scheduler.core.request.secrets import git_key


def repository_of(job: Job) -> str:
    """The git source of its code; "" without one."""
    code = job.request.get("code", "")
    return code if is_git_source(code) else ""


def attempt_commit(attempt: Attempt) -> str:
    """Of an attempt whose replicas are loaded: the commit that it has; "" until that is known."""
    return next((row.code_commit for row in attempt.replicas.all() if row.rank == 0), "")


def commits_to_fetch(attempts: Iterable[Attempt]) -> Mapping[int, str]:
    """By attempt, the commit that its replicas are to have, where one is known. Asks nothing for
    jobs whose code is of no repository."""
    bound = {row.pk: row.job_id for row in attempts if repository_of(row.job)}
    if not bound:
        return {}
    rows = Replica.objects.filter(attempt__job__in=set(bound.values()), rank=0)
    known = rows.exclude(code_commit="").order_by("-attempt")
    # The first attempt counts, which is the last of these.
    by_job = dict(known.values_list("attempt__job_id", "code_commit"))
    return {pk: by_job[job] for pk, job in bound.items() if job in by_job}


def desired_git(request: JobRequest, commit: str) -> DesiredGitCode | None:
    """As a node is told of it; None where the code is of no repository."""
    if request.git_source is None:
        return None
    return DesiredGitCode(request.code, commit, git_key(request.secrets))
