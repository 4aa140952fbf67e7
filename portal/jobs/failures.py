"""Why an attempt failed, in one sentence."""

from collections.abc import Mapping
from typing import Any

from agents.contract.message import Message, read_message, verbatim


def failure_message(failure: Mapping[str, Any]) -> Message:
    """The message of the node, or of the person who stopped it; otherwise rank and exit code."""
    text = str(failure.get("sentence", ""))
    plain = Message(
        "rank %(rank)s ended with exit code %(exit_code)s",
        rank=failure.get("rank"),
        exit_code=failure.get("exit_code"),
    )
    if failure.get("exit_code") is not None and text in ("", plain.text):
        return plain
    return read_message(failure.get("said"), text) or verbatim(text)
