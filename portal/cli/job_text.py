"""A job as text: list columns, the progress line, details, and the exit code. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from portal.cli.exit_codes import ExitCode
from portal.cli.output import Column
from portal.cli.text import (
    clock_text,
    duration_text,
    expected_start_text,
    gpu_count_text,
    memory_text,
    parse_time,
    single_line,
)
from scheduler.core.request_fields import count_range_words

WAITING_STATUSES = frozenset(("submitted", "awaiting_approval", "queued"))
STARTING = frozenset(("placed", "preparing"))
FINAL_STATUSES = frozenset(("succeeded", "failed", "cancelled", "timed_out"))
LIVE_STATUSES = (
    "submitted",
    "awaiting_approval",
    "queued",
    "placed",
    "preparing",
    "running",
    "stopping",
)

Row = Mapping[str, Any]


def job_columns(now: datetime) -> list[Column]:
    """The columns of `ps`, similar to those of squeue."""
    return [
        Column("ID", listed_label),
        Column("NAME", lambda job: job["name"]),
        Column("OWNER", lambda job: job["owner"]),
        Column("PROJECT", lambda job: job["project"], wide=True),
        Column("STATE", listed_state),
        Column("REPLICAS", lambda job: job["replicas"]),
        Column("KIND", lambda job: job["kind"], wide=True),
        Column("PRIORITY", lambda job: job["priority"], wide=True),
        Column("POS", lambda job: job["position"] or ""),
        Column("TIME", lambda job: run_time(job, now)),
        Column("TIME-LEFT", lambda job: time_left(job, now)),
        Column("GPU-HOURS", lambda job: job["gpu_hours"], wide=True),
        Column("IMAGE", lambda job: job["image"], wide=True),
        Column("REASON", lambda job: reason_summary(job, now)),
    ]


def listed_label(job: Row) -> str:
    """Of a row that stands for an array, the array's."""
    array = job.get("array") or {}
    return str(array["id"] if array.get("members") else job["id"])


def listed_state(job: Row) -> str:
    """Of an array, how its members stand: "37 running, 60 waiting"."""
    members = (job.get("array") or {}).get("members")
    return members_text(members) if members else str(job["status"])


def members_text(members: Row) -> str:
    """How many members of an array are in each state."""
    return ", ".join(f"{count} {state}" for state, count in members.items() if count)


def run_time(job: Row, now: datetime) -> str:
    started = parse_time(job.get("started_at"))
    return (
        duration_text(((parse_time(job.get("finished_at")) or now) - started).total_seconds())
        if started
        else ""
    )


def time_left(job: Row, now: datetime) -> str:
    """Time until its deadline while it runs; before, its time limit."""
    if job["status"] in FINAL_STATUSES:
        return ""
    if deadline := parse_time(job.get("deadline_at")):
        return duration_text((deadline - now).total_seconds())
    return duration_text(job.get("time_limit_seconds") or 0)


def reason_summary(job: Row, now: datetime) -> str:
    """One line: the reason code and expected start of a waiting job, or why it failed or ended."""
    if job["status"] in FINAL_STATUSES or job["status"] == "stopping":
        return str((job.get("diagnosis") or {}).get("cause") or job.get("stop_reason") or "")
    reason = job.get("reason") or {}
    words = [str(reason["code"])] if reason.get("code") else []
    if job.get("estimate") and (until := expected_start_text(job, now)):
        words.append(until.partition(" (")[0])
    return ", ".join(words)


def progress_text(job: Row, now: datetime) -> str:
    """The progress line: state, position, expected start, reason."""
    words = [f"{single_line(job['id'])} {job['status']}"]
    if job.get("position"):
        words.append(f"position {job['position']}")
    if until := expected_start_text(job, now):
        words.append(until)
    if reason := job.get("reason"):
        words.append(single_line(reason.get("sentence") or reason.get("code") or ""))
    words += image_pulls(job)
    if job["status"] == "running" and (left := time_left(job, now)):
        words.append(f"{left} left")
    return " · ".join(words)


def progress_key(job: Row) -> tuple[Any, ...]:
    """A file gets the progress line again only when this changes: times always do, so no times."""
    causes = tuple(sorted({str(pull.get("cause")) for _, pull in _pulls(job)}))
    return (job["status"], job.get("position"), (job.get("reason") or {}).get("code"), causes)


def image_pulls(job: Row) -> list[str]:
    """How far the pull of its image is, a sentence for each node."""
    found = {node: str(pull.get("sentence", "")) for node, pull in _pulls(job)}
    return [single_line(f"{node}: {sentence}") for node, sentence in sorted(found.items())]


def _pulls(job: Row) -> list[tuple[str, Row]]:
    """Node and pull of each replica of the last attempt that waits for its image."""
    attempts = job.get("attempts") or [{}]
    replicas = attempts[-1].get("replicas") or ()
    return [(str(r.get("node", "")), r["pull"]) for r in replicas if r.get("pull")]


def _of_last_attempt(job: Row, name: str) -> list[str]:
    """What it ran; none until that is known."""
    value = ((job.get("attempts") or [{}])[-1]).get(name)
    return [single_line(value)] if value else []


def _repositories(job: Row) -> list[str]:
    """Where its code is, unless the portal has it."""
    code = str(job.get("request", {}).get("code") or "")
    return [single_line(code)] if "://" in code else []


def job_exit_code(job: Row) -> int:
    """The exit code of `--wait`: 0, the code of the replica that failed first, TIMEOUT after the
    time limit, or FAILURE without a code."""
    if job["status"] == "succeeded":
        return ExitCode.OK
    result = job.get("result") or {}
    first = result.get("first_failure") or {}
    codes = [first.get("exit_code"), *(r.get("exit_code") for r in result.get("replicas", []))]
    if job["status"] == "timed_out":
        return ExitCode.TIMEOUT
    if job["status"] == "cancelled":
        return ExitCode.FAILURE
    return next((int(code) & 0xFF for code in codes if code and int(code) & 0xFF), ExitCode.FAILURE)


def end_summary(job: Row) -> str:
    """How the job ended, in one line."""
    failure = (job.get("result") or {}).get("first_failure") or {}
    first = (job.get("diagnosis") or failure).get("sentence") or ""
    cause = f": {single_line(first)}" if first and job["status"] != "succeeded" else ""
    return f"{single_line(job['id'])} {job['status']}{cause}"


def job_facts(job: Row, now: datetime) -> list[tuple[str, object]]:
    """The details that `show` prints, as name and value."""
    times = ("submitted_at", "started_at", "deadline_at", "finished_at")
    facts: list[tuple[str, object]] = [
        ("Job", f"{job['id']} {job['name']}"),
        ("State", job["status"]),
        ("Reason", reason_summary(job, now)),
        *(("Image pull", sentence) for sentence in image_pulls(job)),
        ("Project", f"{job['project']}, submitted by {job['owner']}"),
        ("Image", job["image"]),
        *(("Image digest", digest) for digest in _of_last_attempt(job, "image_digest")),
        *(("Code", source) for source in _repositories(job)),
        *(("Code commit", commit) for commit in _of_last_attempt(job, "code_commit")),
        ("Command", " ".join(map(str, job.get("request", {}).get("command", [])))),
        ("Device", device_text(job.get("request", {}).get("device", {}))),
        ("Replicas", _replicas(job)),
        ("Priority", job["priority"] + (", preemptible" if job["preemptible"] else "")),
        ("Time limit", duration_text(job["time_limit_seconds"])),
        ("Position", job["position"]),
    ]
    for name in times:
        if when := parse_time(job.get(name)):
            facts.append((name.removesuffix("_at").capitalize(), clock_text(when, now)))
    return [*facts, ("GPU-hours", job["gpu_hours"])]


def _replicas(job: Row) -> str:
    """ "4", or "2-8, 4 in the last attempt" of a job that leaves it open."""
    requested = job.get("request", {}).get("replicas", job["replicas"])
    placed = (job.get("attempts") or [{}])[-1].get("placed_replicas")
    if not isinstance(requested, Mapping) or not placed:
        return count_range_words(requested)
    return f"{count_range_words(requested)}, {placed} in the last attempt"


def device_text(device: Any) -> str:
    """ "4 GPUs", "MIG 2g.35gb", "25 % of a GPU with 20GiB" or "24GiB of GPU memory"."""
    if not isinstance(device, Mapping):
        return ""
    models = f" of {', '.join(map(str, device['models']))}" if device.get("models") else ""
    if count := device.get("gpus"):
        return f"{count} {'GPU' if count == 1 else 'GPUs'}{models}"
    if profile := device.get("mig"):
        return f"MIG {profile}{models}"
    if isinstance(share := device.get("mps"), Mapping):
        return f"{share.get('threads')} % of a GPU with {share.get('memory')}{models}"
    return f"{device.get('memory', '?')} of GPU memory{models}"


def diagnosis_facts(job: Row) -> list[tuple[str, object]]:
    """Why it failed and what to do, as name and value; none until that is known."""
    diagnosis = job.get("diagnosis") or {}
    if not diagnosis:
        return []
    evidence, remedy = diagnosis.get("evidence") or {}, diagnosis.get("remedy") or {}
    return [
        ("Failed", single_line(diagnosis.get("sentence") or "")),
        ("Cause", _cause_text(diagnosis)),
        (f"Log {_place_text(evidence)}", single_line(evidence.get("text") or "")),
        ("What to do", (diagnosis.get("advice") or {}).get("sentence", "")),
        ("Change", _change_text(remedy)),
    ]


def finding_text(attempt: Row) -> str:
    """Why an attempt failed, in one line; empty until that is known."""
    finding = attempt.get("finding") or {}
    if not finding:
        return ""
    place = _place_text(finding.get("evidence") or {})
    where = f", {place}" if place else ""
    return f"{single_line(finding.get('sentence') or '')} ({_cause_text(finding)}{where})"


def _cause_text(finding: Row) -> str:
    guess = ", probably" if finding.get("confidence") == "likely" else ""
    return f"{finding.get('cause')}{guess}"


def _place_text(evidence: Row) -> str:
    return f"rank {evidence['rank']}, line {evidence['line']}" if evidence else ""


def _change_text(remedy: Row) -> str:
    """ "Ask again with 35 GB: {"device": …}", for a remedy that changes the request."""
    if remedy.get("action") != "change":
        return single_line(remedy.get("sentence") or "")
    changes = json.dumps(remedy.get("changes"), ensure_ascii=False)
    return single_line(f"{remedy.get('sentence')}: {changes}")


REPLICA_COLUMNS = [
    Column("RANK", lambda replica: replica["rank"]),
    Column("NODE", lambda replica: replica["node"]),
    Column("STATE", lambda replica: replica["status"]),
    Column("EXIT", lambda replica: "" if replica["exit_code"] is None else replica["exit_code"]),
    Column("DEVICES", lambda replica: devices_text(replica.get("devices", []))),
    Column("MESSAGE", lambda replica: replica["sentence"]),
]


def devices_text(devices: list[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{d['profile'] or d['kind']} on GPU {d['gpu']} ({memory_text(d['memory_mib'])}, "
        f"{gpu_count_text(d['units'])} GPU)"
        for d in devices
    )
