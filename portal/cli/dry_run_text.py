"""What the planner says of a request, in words. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from portal.cli.job_text import device_words
from portal.cli.text import clock, expected, gpus, moment

# Of a wide gang so many devices are named.
MOST_NAMED = 8
SECONDS_PER_HOUR = 3_600

Answer = Mapping[str, Any]


def plan_facts(answer: Answer, now: datetime) -> list[tuple[str, object]]:
    """The answer of a dry run. Older portals tell less: what is not there is left out."""
    asked = answer.get("request") or {}
    replicas = asked.get("replicas", 1)
    times = f"{replicas} x " if replicas != 1 else ""
    return [
        ("Verdict", _verdict(answer, now)),
        ("Approval", (answer.get("approval") or {}).get("sentence", "")),
        ("Runs on", _places(answer.get("placement") or [])),
        ("Project", asked.get("project", "")),
        ("Name", asked.get("name", "")),
        ("Image", asked.get("image", "")),
        ("Command", " ".join(map(str, asked.get("command", [])))[:200]),
        ("Each gets", f"{times}{device_words(asked.get('device'))}"),
        ("Holds", _holds(answer)),
        ("Time limit", asked.get("time_limit", "")),
        *(("Quota after", said) for said in _limits(answer, asked.get("project", ""), now)),
        *(("Instead", one.get("sentence", "")) for one in answer.get("alternatives") or []),
    ]


def verdict_name(answer: Answer) -> str:
    """In one word; the code of the reason where it can never run."""
    if not answer.get("possible"):
        return str((answer.get("reason") or {}).get("code", "never"))
    return str(answer.get("verdict", "possible"))


def _verdict(answer: Answer, now: datetime) -> str:
    reason = (answer.get("reason") or {}).get("sentence", "")
    if not answer.get("possible"):
        return f"can never run: {reason}"
    match answer.get("verdict"):
        case "now":
            return "starts at once"
        case "soon":
            return f"starts in a moment: {reason}"
        case "approval":
            return "waits for an admin's yes" + (f", then: {reason}" if reason else "")
    if not reason:
        return "can run here"
    starts = expected(answer, now)
    return f"waits: {reason}; {starts}" if starts else f"waits: {reason}"


def _places(devices: list[Answer]) -> str:
    named = [f"{one['node']} GPU {one['gpu']}{_part(one)}" for one in devices[:MOST_NAMED]]
    more = len(devices) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _part(device: Answer) -> str:
    if device.get("threads"):
        return f" ({device['threads']} %)"
    made = ", carved for it" if device.get("carved") else ""
    return f" ({device['profile']}{made})" if device.get("profile") else ""


def _holds(answer: Answer) -> str:
    if "units" not in answer:
        return ""
    return f"{gpus(answer['units'])} GPU, at most {answer.get('gpu_hours', '?')} GPU-hours"


def _limits(answer: Answer, project: str, now: datetime) -> Iterator[str]:
    """One line for each quota and budget; one that there is none."""
    if answer.get("limits") == []:
        yield f"{project} has no quota and no budget"
    for one in answer.get("limits") or []:
        whose = f"{one['user']} in {project}" if one["user"] else f"project {project}"
        over = ", OVER" if one["is_over"] else ""
        if one["of"] == "budget":
            after, limit = (gpus(one[name] // SECONDS_PER_HOUR) for name in ("would_be", "limit"))
            ends = moment(one.get("ends_at"))
            until = f" until {clock(ends, now)}" if ends else ""
            yield f"{whose}: at most {after} of {limit} GPU-hours{until}{over}"
        else:
            model = f"{one['model']} " if one["model"] else ""
            after, limit = gpus(one["would_be"]), gpus(one["limit"])
            yield f"{whose}: {after} of {limit} {model}GPUs{over}"
