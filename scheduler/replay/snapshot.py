"""`replay snapshot FILE`: one saved planning pass again, and why it decided so."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agents.contract.codec import encode
from scheduler.core.decisions import Place, Plan
from scheduler.core.plan import plan
from scheduler.core.snapshot_file import read_pass
from scheduler.core.values import ClusterSnapshot


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a pass that `manage.py planning_pass` saved")
    parser.add_argument("--job", default="", help="only what concerns this job (its number)")
    parser.add_argument("--json", action="store_true", help="the plan as one JSON object")


def run(options: argparse.Namespace) -> int:
    """0, or 2 with one sentence where the file cannot be read."""
    try:
        snapshot, policy = read_pass(options.file.read_text())
    except (OSError, ValueError) as wrong:
        print(f"{options.file}: {wrong}", file=sys.stderr)
        return 2
    decided = plan(snapshot, policy)
    wanted = options.job.removeprefix("J-")
    if options.json:
        print(json.dumps(_as_dict(decided, wanted), sort_keys=True))
        return 0
    for line in _told(snapshot, decided, wanted):
        print(line)
    return 0


def _as_dict(decided: Plan, wanted: str) -> dict[str, Any]:
    def concerns(one: Any) -> bool:
        return wanted in ("", getattr(one, "job", ""), getattr(one, "for_job", ""))

    whole: dict[str, Any] = encode(decided)
    for kind in ("places", "merges", "preempts", "reservations"):
        whole[kind] = [encode(one) for one in getattr(decided, kind) if concerns(one)]
    whole["holds"] = [
        {"job": hold.job, "position": hold.position, "reason": hold.reason.as_dict()}
        for hold in decided.holds
        if concerns(hold)
    ]
    return whole


def _told(snapshot: ClusterSnapshot, decided: Plan, wanted: str) -> Iterator[str]:
    names = {job.id: job for job in snapshot.jobs} | {r.job.id: r.job for r in snapshot.running}

    def called(job: str) -> str:
        return f"J-{job} {names[job].name}" if job in names else f"J-{job}"

    for place in decided.places:
        if wanted in ("", place.job):
            yield f"{called(place.job)} starts: {place.sentence}"
            yield from _devices(snapshot, place)
    for merge in decided.merges:
        if wanted in ("", merge.for_job):
            yield f"{len(merge.slices)} idle slices are deleted for {called(merge.for_job)}"
    for stop in decided.preempts:
        if wanted in ("", stop.job, stop.for_job):
            why = f" ({stop.cause}): {stop.sentence}"
            yield f"{called(stop.job)} stops for {called(stop.for_job)}{why}"
    for kept in decided.reservations:
        if wanted in ("", kept.job):
            yield f"{called(kept.job)} is sure to start in {kept.starts_at - snapshot.now} s"
    for hold in decided.holds:
        if wanted in ("", hold.job):
            yield f"{hold.position}. {called(hold.job)} waits [{hold.reason.code}]: " + (
                f"{hold.reason.sentence}. {hold.reason.unblocks}".rstrip(". ")
            )
            if wanted:
                for name, value in sorted(hold.reason.evidence.items()):
                    yield f"   {name}: {json.dumps(value, sort_keys=True)}"


def _devices(snapshot: ClusterSnapshot, place: Place) -> Iterator[str]:
    nodes = {node.id: node for node in snapshot.nodes}
    for replica in place.replicas:
        node = nodes[replica.node]
        indexes = {gpu.id: gpu.index for gpu in node.gpus}
        for device in replica.devices:
            what = f"{device.profile} at {device.start}" if device.profile else "whole"
            what = f"{device.threads} %" if device.threads else what
            how = "ready" if device.slice else "new"
            where = f"{node.name}, GPU {indexes[device.gpu]}"
            yield f"   replica {replica.rank}: {where}, {what} ({how})"
