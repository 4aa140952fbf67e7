"""Who opens terminals in a running job: its owner, with the owner's secrets, where it has them."""

from django.conf import settings

from portal.accounts.models import User
from portal.jobs.models import Job
from portal.jobs.selectors import is_working_owner


def has_terminals(job: Job) -> bool:
    """Whether neither the portal nor the job's project turns them off."""
    return bool(settings.PLATFORM.terminals) and not job.project.bars_terminals


def may_open_terminals(user: User, job: Job) -> bool:
    """In its replicas that run."""
    return is_working_owner(user, job) and has_terminals(job)
