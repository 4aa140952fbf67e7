"""`replay snapshot FILE`: repeats one saved planning pass and explains its decisions."""

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
        "file", type=Path, help="a pass saved by `manage.py planning_pass`; - for standard input"
    )
    parser.add_argument("--job", default="", help="only about this job, such as J-4")
    parser.add_argument("--json", action="store_true", help="the plan as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Raises ReplayError if the file cannot be read or has no such job."""
    snapshot, policy = _read(options.file)
    job_id = options.job.removeprefix("J-")
    known = {job.id for job in snapshot.jobs} | {run.job.id for run in snapshot.running}
    if job_id and job_id not in known:
        raise ReplayError(f"--job {options.job}: no such job waits or holds devices in this pass")
    decided = plan(snapshot, policy, RuntimeModel.from_snapshot(snapshot))
    if options.json:
        print(json.dumps(_as_dict(decided, job_id), sort_keys=True))
        return 0
    for line in PassReport(snapshot, policy, decided).lines(job_id):
        print(line)
    return 0


def _read(path: Path) -> tuple[ClusterSnapshot, Policy]:
    try:
        return read_pass(sys.stdin.read() if str(path) == "-" else path.read_text("utf-8"))
    except OSError as wrong:
        raise ReplayError(f"{path}: {wrong.strerror}") from None
    except ValueError as wrong:
        raise ReplayError(f"{path}: {wrong}") from None


def _as_dict(decided: Plan, job_id: str) -> dict[str, Any]:
    def concerns(one: Any) -> bool:
        return job_id in ("", getattr(one, "job", ""), getattr(one, "for_job", ""))

    fields: dict[str, Any] = {}
    fields["places"] = [
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
        fields[key] = [encode(one) for one in decisions if concerns(one)]
    fields["bypassed"] = [job for job in decided.bypassed if job_id in ("", job)]
    fields["holds"] = [
        {"job": deferral.job, "position": deferral.position, "reason": deferral.reason.as_dict()}
        for deferral in decided.deferrals
        if concerns(deferral)
    ]
    return fields
