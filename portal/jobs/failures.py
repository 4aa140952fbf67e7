"""Why an attempt failed, in one sentence."""

from collections.abc import Mapping
from typing import Any

from agents.contract.phrase import Phrase


def failure_sentence(failure: Mapping[str, Any]) -> str:
    """The sentence of the node, or of whoever stopped it; otherwise rank and exit code."""
    sentence = str(failure.get("sentence", ""))
    plain = Phrase(
        "rank %(rank)s ended with exit code %(exit_code)s",
        rank=failure.get("rank"),
        exit_code=failure.get("exit_code"),
    )
    is_known = failure.get("exit_code") is not None
    return plain if is_known and sentence in ("", plain) else sentence
