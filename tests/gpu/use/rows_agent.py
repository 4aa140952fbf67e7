"""Row 13: the agent itself, for some minutes on this driver, with a portal that stands in."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from agents.contract.codec import encode
from tests.gpu import guard
from tests.gpu.use.ports import free_port
from tests.gpu.use.record import NotPossible, Record, own_program
from tests.gpu.use.rows import AGENT_SECONDS
from tests.gpu.use.stand_in_portal import StandInPortal

LOOPBACK = "127.0.0.1"
SAMPLE_SECONDS = 1.0
JOB = ("cuda_client", "work", "5")
END_SECONDS = 20.0
MODULES = ("docker", "httpx", "cryptography", "prometheus_client")
ROUNDS = re.compile(r"^tessera_agent_rounds_total\S* (\S+)$", re.MULTILINE)


def agent(record: Record) -> None:
    """Its own end by SIGTERM belongs to the row: nothing of it may be left then."""
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise NotPossible(f"{sys.executable} lacks packages of the agent: {', '.join(missing)}")
    command = own_program(*JOB)
    if record.simulated:
        command = [sys.executable, "-c", "print('worked')"]
    portal = StandInPortal(tuple(command))
    with contextlib.closing(portal), tempfile.TemporaryDirectory(prefix="agent-") as name:
        record.step("run", lambda: _run(record, portal, Path(name)))


def _run(record: Record, portal: StandInPortal, folder: Path) -> dict[str, Any]:
    metrics, log, refused = f"127.0.0.1:{free_port()}", folder / "log", folder / "refused"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.use.guarded_agent", str(refused),
             str(record.simulated or ""), "run", "--portal", portal.url, "--name", "test-gpu",
             "--var", str(folder / "agent"), "--runtime", "process", "--metrics", metrics,
             "--telemetry-seconds", "1", "--stop-jobs-on-exit"],
            env=os.environ | {"TESSERA_JOIN_TOKEN": "join"},
            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
        try:
            samples = _samples(process, metrics)
        finally:
            ended = _end(process)
    # What the agent tried is held against this row.
    guard.refused += refused.read_text("utf-8").splitlines() if refused.exists() else []
    lines = log.read_text("utf-8", "replace").splitlines()
    return {
        "seconds": AGENT_SECONDS,
        "every_second": samples,
        "status": ended,
        "ended_by_itself": refused.exists(),
        "syncs": portal.syncs,
        "telemetry_calls": portal.samples,
        "replicas": portal.ended,
        "logs": {name: text.decode("utf-8", "replace") for name, text in portal.logs.items()},
        "last_document": encode(portal.observed) if portal.observed else None,
        "events_of_the_log": _events(lines),
        "log": lines[-400:],
    }


def _samples(process: subprocess.Popen[bytes], metrics: str) -> list[dict[str, Any]]:
    found = []
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < AGENT_SECONDS:
        found.append({
            "second": round(time.monotonic() - began, 1),
            "rounds": _rounds(metrics),
            **_process(process.pid),
        })  # fmt: skip
        time.sleep(SAMPLE_SECONDS)
    return found


def _end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _process(pid: int) -> dict[str, Any]:
    proc = Path(f"/proc/{pid}")
    try:
        status = (proc / "status").read_text("ascii", "replace")
        (resident,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        (threads,) = re.findall(r"^Threads:\s+(\d+)$", status, re.MULTILINE)
        files = len(list((proc / "fd").iterdir()))
    except (OSError, ValueError):
        return {}
    return {"resident_kib": int(resident), "threads": int(threads), "files": files}


def _rounds(metrics: str) -> float | None:
    """None before the page is there."""
    try:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=2) as page:
            found = ROUNDS.search(page.read().decode())
    except OSError:
        return None
    return float(found[1]) if found else None


def _events(lines: list[str]) -> dict[str, int]:
    """How often each: refusals and the driver's errors are among them by their names."""
    names: Counter[str] = Counter()
    for line in lines:
        try:
            names[json.loads(line)["event"]] += 1
        except (ValueError, KeyError, TypeError):
            names["not JSON"] += 1
    return dict(names)
