"""What the page of a running notebook says about its end: what is kept, and what is not."""

from django.utils.translation import gettext as _

from agents.launchers.notebook_servers import HOMES
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus
from scheduler.core.request import JobKind


def retention_sentence(job: Job) -> str:
    """Empty unless it is a notebook that runs. No query."""
    if job.kind != JobKind.NOTEBOOK or JobStatus(job.status) is not JobStatus.RUNNING:
        return ""
    volumes = job.request.get("volumes", ())
    home = next((each["volume"] for each in volumes if each["path"] == HOMES), "")
    if home:
        return _(
            "When it ends, its kernels and terminals are gone, with what they hold in memory. Your "
            "files in the volume %(name)s are kept, and the next notebook starts with them."
        ) % {"name": home}
    if volumes:
        return _(
            "When it ends, everything outside its volumes is lost, except the files in "
            "TESSERA_OUTPUT_DIR: copy what you need there first."
        )
    return _(
        "It has no volume: when it ends, everything is lost except the files in "
        "TESSERA_OUTPUT_DIR. Copy what you need there first."
    )
