"""A finding as `Attempt.finding` keeps it, and a diagnosis as `Job.diagnosis` does. Pure.

    finding   = {"cause", "confidence", "sentence", "said", "log_bytes",
                 "evidence": {"rank", "line", "attempt", "text"} or null}
    diagnosis = finding of the last attempt, "advice": {"sentence", "said"},
                "remedy": {"action", "sentence", "said", "changes", "field"} or null

`log_bytes` says how much log there was: when more arrives, it is made again. REST leaves it out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agents.contract.message import Message
from portal.diagnosis.remedies import Remedy, RemedyAction
from portal.diagnosis.secrets import masked, masked_message
from portal.diagnosis.values import FailureFinding

# Of the line that shows the cause. The log has the rest.
MAX_EVIDENCE = 200


def finding_as_json(
    finding: FailureFinding, *, attempt: int, log_bytes: int, secrets: Iterable[str]
) -> dict[str, Any]:
    """As JSON, without secrets."""
    hidden = list(secrets)
    line = finding.line
    evidence = line and {
        "rank": line.rank,
        "line": line.number,
        "attempt": attempt,
        "text": masked(line.text.strip(), hidden)[:MAX_EVIDENCE],
    }
    return {
        "cause": str(finding.cause),
        "confidence": str(finding.confidence),
        **_stored_message(masked_message(finding.sentence, hidden)),
        "evidence": evidence,
        "log_bytes": log_bytes,
    }


def diagnosis_as_json(finding: Mapping[str, Any], remedy: Remedy) -> dict[str, Any]:
    """As JSON."""
    return {
        **finding,
        "advice": _stored_message(remedy.advice),
        "remedy": _stored_remedy(remedy),
    }


def _stored_remedy(remedy: Remedy) -> dict[str, Any] | None:
    if remedy.action is RemedyAction.NONE or remedy.label is None:
        return None
    return {
        "action": str(remedy.action),
        **_stored_message(remedy.label),
        "changes": dict(remedy.changes),
        "field": remedy.field,
    }


def _stored_message(message: Message) -> dict[str, Any]:
    return {"sentence": message.text, "said": message.as_dict()}
