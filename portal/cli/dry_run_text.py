"""A dry run as text. Pure."""

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from portal.cli.job_text import device_text
from portal.cli.text import clock_text, expected_start_text, gpu_count_text, parse_time
from scheduler.core.request_fields import count_range_words

# The devices of a large gang that are listed.
MAX_LISTED_DEVICES = 8
# As many replicas are told apart.
MAX_LISTED_REPLICAS = 4
SECONDS_PER_HOUR = 3_600

DryRun = Mapping[str, Any]


def dry_run_facts(answer: DryRun, now: datetime) -> list[tuple[str, object]]:
    """A dry run as name and value. Fields that an older portal lacks are left out."""
    request = answer.get("request") or {}
    replicas = request.get("replicas", 1)
    times = f"{count_range_words(replicas)} x " if replicas != 1 else ""
    return [
        ("Verdict", _verdict(answer, now)),
        ("Approval", (answer.get("approval") or {}).get("sentence", "")),
        ("Runs on", _places(answer.get("placement") or [])),
        ("Project", request.get("project", "")),
        ("Name", request.get("name", "")),
        ("Image", request.get("image", "")),
        ("Command", " ".join(map(str, request.get("command", [])))[:200]),
        ("Per replica", f"{times}{device_text(request.get('device'))}"),
        ("Host", _host(request)),
        *(("Warning", each.get("sentence", "")) for each in answer.get("warnings") or []),
        ("Uses", _usage(answer)),
        ("Time limit", request.get("time_limit", "")),
        *(("Quota after", line) for line in _limits(answer, request.get("project", ""), now)),
        *(("Alternative", item.get("sentence", "")) for item in answer.get("alternatives") or []),
    ]


def launch_facts(answer: DryRun) -> Iterator[tuple[str, object]]:
    """What the replicas would be started with. Texts of files are in `--output json`. An older
    portal does not tell."""
    launch = answer.get("launch") or {}
    replicas = launch.get("replicas") or []
    if sharing := launch.get("sharing"):
        yield "Containers", sharing
    yield "Starts as", _command(launch)
    for number, variable in enumerate(_variables(launch)):
        yield "" if number else "Environment", variable
    for number, path in enumerate(launch.get("files") or []):
        yield "" if number else "Files", path
    if len(replicas) < 2:
        return
    noun = "Container" if launch.get("joined_replicas", 1) > 1 else "Replica"
    for replica in replicas[:MAX_LISTED_REPLICAS]:
        words = (_command(replica), *_variables(replica), *(replica.get("files") or []))
        yield f"{noun} {replica.get('rank')}", " ".join(filter(None, words))
    omitted = launch.get("omitted_replicas", 0) + max(0, len(replicas) - MAX_LISTED_REPLICAS)
    if omitted:
        yield "", f"and {omitted} more {noun.lower()}s"


def _command(started: DryRun) -> str:
    return shlex.join(map(str, started.get("command") or []))


def _variables(started: DryRun) -> list[str]:
    return [f"{name}={value}" for name, value in sorted((started.get("environment") or {}).items())]


def verdict_name(answer: DryRun) -> str:
    """The verdict as one word; for an impossible request, the reason code."""
    if not answer.get("possible"):
        return str((answer.get("reason") or {}).get("code", "never"))
    return str(answer.get("verdict", "possible"))


def _verdict(answer: DryRun, now: datetime) -> str:
    reason = (answer.get("reason") or {}).get("sentence", "")
    if not answer.get("possible"):
        return f"can never run: {reason}"
    match answer.get("verdict"):
        case "now":
            return "starts at once" + _size(answer)
        case "soon":
            return f"starts in a moment: {reason}"
        case "approval":
            return "needs an approval" + (f", then: {reason}" if reason else "")
    if not reason:
        return "can run"
    starts = expected_start_text(answer, now)
    return f"waits: {reason}; {starts}" if starts else f"waits: {reason}"


def _size(answer: DryRun) -> str:
    """With how many replicas, where the request leaves that open."""
    sizes = (answer.get("request") or {}).get("replicas")
    if not isinstance(sizes, Mapping):
        return ""
    started = answer.get("starting_replicas", "some")
    return f" with {started} of {sizes.get('min')} to {sizes.get('max')} replicas"


def _places(devices: list[DryRun]) -> str:
    named = [
        f"{device['node']} GPU {device['gpu']}{_part(device)}"
        for device in devices[:MAX_LISTED_DEVICES]
    ]
    more = len(devices) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _part(device: DryRun) -> str:
    if device.get("threads"):
        return f" ({device['threads']} %)"
    carved = ", will be carved" if device.get("carved") else ""
    return f" ({device['profile']}{carved})" if device.get("profile") else ""


def _host(request: DryRun) -> str:
    if not {"cpu", "memory", "shm"} <= request.keys():
        return ""
    return f"{request['cpu']} CPU, {request['memory']} memory, {request['shm']} shared memory"


def _usage(answer: DryRun) -> str:
    if "units" not in answer:
        return ""
    return (
        f"{gpu_count_text(answer['units'])} GPU, at most {answer.get('gpu_hours', '?')} GPU-hours"
    )


def _limits(answer: DryRun, project: str, now: datetime) -> Iterator[str]:
    """One line for each quota and budget, or one line that there are none."""
    if answer.get("limits") == []:
        yield f"{project} has no quota and no budget"
    for limit_row in answer.get("limits") or []:
        holder = f"{limit_row['user']} in {project}" if limit_row["user"] else f"project {project}"
        over = ", OVER" if limit_row["is_over"] else ""
        if limit_row["of"] == "budget":
            after, limit = (
                gpu_count_text(limit_row[name] // SECONDS_PER_HOUR)
                for name in ("would_be", "limit")
            )
            ends = parse_time(limit_row.get("ends_at"))
            until = f" until {clock_text(ends, now)}" if ends else ""
            yield f"{holder}: at most {after} of {limit} GPU-hours{until}{over}"
        else:
            model = f"{limit_row['model']} " if limit_row["model"] else ""
            after, limit = gpu_count_text(limit_row["would_be"]), gpu_count_text(limit_row["limit"])
            promised = limit_row.get("promised", 0)
            kept = f", {gpu_count_text(promised)} kept for jobs ahead" if promised else ""
            yield f"{holder}: {after} of {limit} {model}GPUs{kept}{over}"
