"""A diagnosis as `Job.diagnosis` keeps it, and as REST shows it. Pure.

    {"cause", "confidence", "sentence", "said", "advice": {"sentence", "said"},
     "evidence": {"rank", "line", "attempt", "text"} or null,
     "remedy": {"action", "sentence", "said", "changes", "field"} or null, "log_bytes"}

`log_bytes` says how much log there was: when more arrives, the diagnosis is made again.
"""

from collections.abc import Iterable
from typing import Any

from agents.contract.message import Message
from portal.diagnosis.remedies import Remedy, RemedyAction
from portal.diagnosis.secrets import masked, masked_message
from portal.diagnosis.values import FailureFinding

# Of the line that shows the cause. The log has the rest.
MAX_EVIDENCE = 200


def stored_diagnosis(
    finding: FailureFinding, remedy: Remedy, *, attempt: int, log_bytes: int, secrets: Iterable[str]
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
        "advice": _stored_message(remedy.advice),
        "evidence": evidence,
        "remedy": _stored_remedy(remedy),
        "log_bytes": log_bytes,
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
