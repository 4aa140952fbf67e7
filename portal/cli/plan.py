"""What the planner says of a request, in words. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from portal.cli.jobs import device_words
from portal.cli.text import expected, gpus


def plan_facts(answer: Mapping[str, Any], now: datetime) -> list[tuple[str, object]]:
    """The answer of a dry run. Older portals tell less: what is not there is left out."""
    asked = answer.get("request") or {}
    replicas = asked.get("replicas", 1)
    times = f"{replicas} x " if replicas != 1 else ""
    return [
        ("Verdict", _verdict(answer, now)),
        ("Approval", (answer.get("approval") or {}).get("sentence", "")),
        ("Project", asked.get("project", "")),
        ("Name", asked.get("name", "")),
        ("Image", asked.get("image", "")),
        ("Command", " ".join(map(str, asked.get("command", [])))[:200]),
        ("Each gets", f"{times}{device_words(asked.get('device'))}"),
        ("Time limit", asked.get("time_limit", "")),
        ("Quota after", _quota(answer.get("quota"))),
    ]


def _verdict(answer: Mapping[str, Any], now: datetime) -> str:
    reason = answer.get("reason") or {}
    if not answer.get("possible"):
        return f"can never run: {reason.get('sentence', '')}"
    if starts := expected(answer, now):
        why = f" because {reason['sentence']}" if reason.get("sentence") else ""
        return f"waits{why}; {starts}" if why else starts
    return "can run here" if not reason else f"waits: {reason.get('sentence', '')}"


def _quota(quota: Any) -> str:
    if not isinstance(quota, Mapping) or "limit_units" not in quota:
        return ""
    used = quota.get("used_after_units", quota.get("used_units"))
    return f"{gpus(used)} of {gpus(quota['limit_units'])} GPUs"
