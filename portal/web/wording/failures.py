"""Why a job failed, in the reader's language."""

from django.utils.translation import gettext
from django.utils.translation import gettext as _

from portal.jobs.failure_causes import FailureCause
from portal.jobs.models import Job
from portal.web.wording.messages import stored_text


def cause_label(code: str) -> str:
    """A few words for a cause; a code of another version is shown as it is."""
    return gettext(FailureCause(code).label) if code in list(FailureCause) else code


def failure_headline(job: Job) -> str:
    """What failed, in one sentence that may quote the log; empty until the job is diagnosed."""
    return stored_text(job.diagnosis)


def confidence_note(confidence: str) -> str:
    """Said only where the cause is a guess."""
    return _("Probably: the log does not say it for certain") if confidence == "likely" else ""
