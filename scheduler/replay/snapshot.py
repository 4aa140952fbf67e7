"""`replay snapshot FILE`: one saved planning pass again, and why it decided so."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from agents.contract.codec import encode
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.decisions import Plan
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot
from scheduler.core.plan import plan
from scheduler.core.snapshot_file import read_pass
from scheduler.replay.errors import ReplayError
from scheduler.replay.snapshot_text import PassReport


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, help="a pass that `manage.py planning_pass` saved; - for standard input"
    )
    parser.add_argument("--job", default="", help="only what concerns this job, such as J-4")
    parser.add_argument("--json", action="store_true", help="the plan as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Raises Refused where the file cannot be read, or knows nothing of the job."""
    snapshot, policy = _read(options.file)
    wanted = options.job.removeprefix("J-")
    known = {job.id for job in snapshot.jobs} | {run.job.id for run in snapshot.running}
    if wanted and wanted not in known:
        raise ReplayError(f"--job {options.job}: no such job waits or holds devices in this pass")
    decided = plan(snapshot, policy, RuntimeModel.from_snapshot(snapshot))
    if options.json:
        print(json.dumps(_as_dict(decided, wanted), sort_keys=True))
        return 0
    for line in PassReport(snapshot, policy, decided).lines(wanted):
        print(line)
    return 0


def _read(path: Path) -> tuple[ClusterSnapshot, Policy]:
    try:
        return read_pass(sys.stdin.read() if str(path) == "-" else path.read_text("utf-8"))
    except OSError as wrong:
        raise ReplayError(f"{path}: {wrong.strerror}") from None
    except ValueError as wrong:
        raise ReplayError(f"{path}: {wrong}") from None


def _as_dict(decided: Plan, wanted: str) -> dict[str, Any]:
    def concerns(one: Any) -> bool:
        return wanted in ("", getattr(one, "job", ""), getattr(one, "for_job", ""))

    whole: dict[str, Any] = {}
    whole["places"] = [
        {
            "job": placement.job,
            "replicas": encode(placement.replicas),
            "said": placement.message.as_dict(),
            "sentence": placement.sentence,
        }
        for placement in filter(concerns, decided.placements)
    ]
    for key, decisions in (
        ("merges", decided.merges),
        ("carves", decided.carves),
        ("preempts", decided.preemptions),
        ("reservations", decided.reservations),
    ):
        whole[key] = [encode(one) for one in decisions if concerns(one)]
    whole["bypassed"] = [job for job in decided.bypassed if wanted in ("", job)]
    whole["holds"] = [
        {"job": hold.job, "position": hold.position, "reason": hold.reason.as_dict()}
        for hold in decided.deferrals
        if concerns(hold)
    ]
    return whole
