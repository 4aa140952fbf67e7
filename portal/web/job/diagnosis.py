"""What pages say of a failure: the headline and the log line that shows it; of a failed job also
what to do, with one button."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from portal.diagnosis.remedies import RemedyAction
from portal.jobs.models import Job
from portal.web.logs.address import LogView
from portal.web.wording.failures import confidence_note
from portal.web.wording.messages import stored_text


@dataclass(frozen=True, slots=True)
class ShownEvidence:
    """A line of the log."""

    rank: int
    number: int
    text: str
    address: str
    """The page of the log that shows it."""


@dataclass(frozen=True, slots=True)
class RemedyButton:
    """A link to the request form, or the button that retries the job."""

    label: str
    address: str = ""
    """Empty: retry."""


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """Why an attempt failed."""

    cause: str
    headline: str
    note: str
    """Empty for a certain cause."""
    evidence: ShownEvidence | None


@dataclass(frozen=True, slots=True)
class ShownDiagnosis(ShownFinding):
    """Why a job failed, and what to do."""

    advice: str
    button: RemedyButton | None


def shown_finding(job: Job, stored: dict[str, Any] | None) -> ShownFinding | None:
    """Of one of its attempts; None until it is known."""
    return ShownFinding(**_words(job, stored)) if stored else None


def shown_diagnosis(job: Job) -> ShownDiagnosis | None:
    """None until the job is diagnosed."""
    stored: dict[str, Any] | None = job.diagnosis
    if not stored:
        return None
    return ShownDiagnosis(
        **_words(job, stored),
        advice=stored_text(stored.get("advice")),
        button=_button(job, stored.get("remedy")),
    )


def _words(job: Job, stored: dict[str, Any]) -> dict[str, Any]:
    return {
        "cause": str(stored["cause"]),
        "headline": stored_text(stored),
        "note": confidence_note(str(stored.get("confidence", ""))),
        "evidence": _evidence(job, stored.get("evidence")),
    }


def _evidence(job: Job, stored: dict[str, Any] | None) -> ShownEvidence | None:
    if not stored:
        return None
    rank, line = int(stored["rank"]), int(stored["line"])
    view = LogView(reverse("web:job_logs", args=[job.label]), attempt=int(stored["attempt"]))
    return ShownEvidence(rank, line, str(stored["text"]), view.line_address(rank, line))


def _button(job: Job, stored: dict[str, Any] | None) -> RemedyButton | None:
    if not stored:
        return None
    label, form = stored_text(stored), reverse("web:request")
    match stored["action"]:
        case RemedyAction.CHANGE:
            changes = json.dumps(stored["changes"], sort_keys=True)
            query = urlencode({"like": job.label, "change": changes})
            return RemedyButton(label, f"{form}?{query}")
        case RemedyAction.EDIT:
            return RemedyButton(label, f"{form}?{urlencode({'like': job.label})}#{stored['field']}")
        case RemedyAction.RETRY:
            return RemedyButton(label)
    return None
