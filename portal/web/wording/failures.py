"""Why a job failed, in the reader's language."""

from django.utils.translation import gettext
from django.utils.translation import gettext as _

from agents.contract.message import VERBATIM
from portal.jobs.failure_causes import FailureCause
from portal.jobs.models import Job
from portal.web.wording.messages import stored_text

CAUSES = frozenset(map(str, FailureCause))


def cause_label(code: str) -> str:
    """A few words for a cause; a code of another version is shown as it is."""
    return gettext(FailureCause(code).label) if code in CAUSES else code


def failure_headline(job: Job) -> str:
    """What failed, in one sentence that may quote the log; empty until the job is diagnosed."""
    return stored_text(job.diagnosis)


def failure_notice(job: Job) -> str:
    """What failed, for a mail or a chat: the label of the cause where the headline only quotes the
    log, whose words may be nobody else's business."""
    said = (job.diagnosis or {}).get("said") or {}
    is_quotation = said.get("key") == VERBATIM or "words" in said.get("values", {})
    return cause_label(job.failure_cause) if is_quotation else failure_headline(job)


def confidence_note(confidence: str) -> str:
    """Said only where the cause is a guess."""
    return _("Probably: the log does not say it for certain") if confidence == "likely" else ""
