"""Reads a job request that somebody has written into a form, as YAML or JSON."""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused


class _NoAliasLoader(yaml.SafeLoader):
    """Refuses aliases, because a few lines of them can expand to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("write it out; & and * are not read here")
        return super().compose_node(parent, index)


def read_written_request(text: str) -> Mapping[str, Any]:
    """Its fields, unchecked. Raises Refused(request_unreadable)."""
    try:
        document = yaml.load(text, Loader=_NoAliasLoader)  # noqa: S506 - safe
    except (yaml.YAMLError, ValueError, RecursionError) as wrong:
        why = str(wrong).splitlines()[0] if str(wrong) else "?"
        sentence = Message("Invalid YAML: %(why)s", why=why[:180])
        raise Refused(ErrorCode.REQUEST_UNREADABLE, sentence, "request") from wrong
    try:
        json.dumps(document)
    except (TypeError, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        sentence = Message("Enter a request with fields such as image, command and device")
        raise Refused(ErrorCode.REQUEST_UNREADABLE, sentence, "request")
    return document
