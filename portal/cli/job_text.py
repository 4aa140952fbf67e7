"""A job in words: the columns of lists, the line while it waits, the exit code it leaves. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from portal.cli.exit_codes import Exit
from portal.cli.output import Column
from portal.cli.text import clock, expected, gpus, memory, moment, plain, span

WAITING = frozenset(("submitted", "awaiting_approval", "queued"))
STARTING = frozenset(("placed", "preparing"))
OVER = frozenset(("succeeded", "failed", "cancelled", "timed_out"))
ALIVE = ("submitted", "awaiting_approval", "queued", "placed", "preparing", "running", "stopping")

Row = Mapping[str, Any]


def columns(now: datetime) -> list[Column]:
    """As `ps` shows them: what squeue shows, in Tessera's words."""
    return [
        Column("ID", lambda job: job["id"]),
        Column("NAME", lambda job: job["name"]),
        Column("OWNER", lambda job: job["owner"]),
        Column("PROJECT", lambda job: job["project"], wide=True),
        Column("STATE", lambda job: job["status"]),
        Column("REPLICAS", lambda job: job["replicas"]),
        Column("KIND", lambda job: job["kind"], wide=True),
        Column("PRIORITY", lambda job: job["priority"], wide=True),
        Column("POS", lambda job: job["position"] or ""),
        Column("TIME", lambda job: ran(job, now)),
        Column("TIME-LEFT", lambda job: time_left(job, now)),
        Column("GPU-HOURS", lambda job: job["gpu_hours"], wide=True),
        Column("IMAGE", lambda job: job["image"], wide=True),
        Column("REASON", lambda job: why_short(job, now)),
    ]


def ran(job: Row, now: datetime) -> str:
    started = moment(job.get("started_at"))
    return (
        span(((moment(job.get("finished_at")) or now) - started).total_seconds()) if started else ""
    )


def time_left(job: Row, now: datetime) -> str:
    """Of its limit: until its end while it runs, all of it before."""
    if job["status"] in OVER:
        return ""
    if deadline := moment(job.get("deadline_at")):
        return span((deadline - now).total_seconds())
    return span(job.get("time_limit_seconds") or 0)


def why_short(job: Row, now: datetime) -> str:
    """One line: why it waits and until about when, or how it ended."""
    if job["status"] in OVER or job["status"] == "stopping":
        return str(job.get("stop_reason") or "")
    reason = job.get("reason") or {}
    told = [str(reason["code"])] if reason.get("code") else []
    if job.get("estimate") and (until := expected(job, now)):
        told.append(until.partition(" (")[0])
    return ", ".join(told)


def progress(job: Row, now: datetime) -> str:
    """The line while it waits: state, position, expected start, reason."""
    words = [f"{plain(job['id'])} {job['status']}"]
    if job.get("position"):
        words.append(f"position {job['position']}")
    if until := expected(job, now):
        words.append(until)
    if reason := job.get("reason"):
        words.append(plain(reason.get("sentence") or reason.get("code") or ""))
    if job["status"] == "running" and (left := time_left(job, now)):
        words.append(f"{left} left")
    return " · ".join(words)


def same_news(job: Row) -> tuple[Any, ...]:
    """What of it is news off a terminal, where times that move would fill a file."""
    return (job["status"], job.get("position"), (job.get("reason") or {}).get("code"))


def own_code(job: Row) -> int:
    """What `--wait` ends with: 0, the code of the replica that failed first, or Exit.TIMEOUT when
    its time was up, or Exit.FAILURE when it ended without a code."""
    if job["status"] == "succeeded":
        return Exit.OK
    result = job.get("result") or {}
    first = result.get("first_failure") or {}
    codes = [first.get("exit_code"), *(r.get("exit_code") for r in result.get("replicas", []))]
    if job["status"] == "timed_out":
        return Exit.TIMEOUT
    if job["status"] == "cancelled":
        return Exit.FAILURE
    return next((int(code) & 0xFF for code in codes if code and int(code) & 0xFF), Exit.FAILURE)


def ended(job: Row) -> str:
    """How it ended, in one line."""
    first = ((job.get("result") or {}).get("first_failure") or {}).get("sentence") or ""
    told = f": {plain(first)}" if first and job["status"] != "succeeded" else ""
    return f"{plain(job['id'])} {job['status']}{told}"


def facts_of(job: Row, now: datetime) -> list[tuple[str, object]]:
    """As `show` shows them."""
    times = ("submitted_at", "started_at", "deadline_at", "finished_at")
    found: list[tuple[str, object]] = [
        ("Job", f"{job['id']} {job['name']}"),
        ("State", job["status"]),
        ("Reason", why_short(job, now)),
        ("Project", f"{job['project']}, asked by {job['owner']}"),
        ("Image", job["image"]),
        ("Command", " ".join(map(str, job.get("request", {}).get("command", [])))),
        ("Device", device_words(job.get("request", {}).get("device", {}))),
        ("Replicas", job["replicas"]),
        ("Priority", job["priority"] + (", may be preempted" if job["preemptible"] else "")),
        ("Time limit", span(job["time_limit_seconds"])),
        ("Position", job["position"]),
    ]
    for name in times:
        if when := moment(job.get(name)):
            found.append((name.removesuffix("_at").capitalize(), clock(when, now)))
    return [*found, ("GPU-hours", job["gpu_hours"])]


def device_words(device: Any) -> str:
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


REPLICA_COLUMNS = [
    Column("RANK", lambda replica: replica["rank"]),
    Column("NODE", lambda replica: replica["node"]),
    Column("STATE", lambda replica: replica["status"]),
    Column("EXIT", lambda replica: "" if replica["exit_code"] is None else replica["exit_code"]),
    Column("DEVICES", lambda replica: devices_words(replica.get("devices", []))),
    Column("SAYS", lambda replica: replica["sentence"]),
]


def devices_words(devices: list[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{d['profile'] or d['kind']} on GPU {d['gpu']} ({memory(d['memory_mib'])}, "
        f"{gpus(d['units'])} GPU)"
        for d in devices
    )
