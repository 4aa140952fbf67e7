"""Planning passes that were saved with their plans: how to read them, and to record them anew.

    python -m tests.property.core.saved_passes        # after an intended change of what is planned

Random worlds of the property tests, each with a random policy: slices, shares, quotas, fair shares,
running work that may stop, reservations. A plan is written without its sentences, which may be
reworded.
"""

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.model.decisions import Plan
from scheduler.core.model.policy import BackfillMode, OrderMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import ClusterSnapshot, OwnerView
from scheduler.core.plan import plan
from scheduler.core.snapshot_file import read_pass, write_pass
from tests.property.core.busy_worlds import a_world
from tests.property.core.worlds import worlds

FILE = Path(__file__).with_name("saved_passes.jsonl.gz")
WORLDS, BUSY_WORLDS = 300, 300


def decisions(found: Plan) -> dict[str, Any]:
    """All that a plan decides, in the order of its bytes."""
    return {
        "placements": [[p.job, [asdict(r) for r in p.replicas]] for p in found.placements],
        "merges": [[m.gpu, list(m.slices), m.for_job] for m in found.merges],
        "carves": [[c.gpu, c.profile, c.start, c.size] for c in found.carves],
        "preemptions": [[p.job, p.for_job, p.cause] for p in found.preemptions],
        "reservations": [asdict(r) for r in found.reservations],
        "bypassed": list(found.bypassed),
        "deferrals": [
            [d.job, d.position, str(d.reason.code), d.reason.evidence] for d in found.deferrals
        ],
    }


def as_text(found: Plan) -> str:
    return json.dumps(decisions(found), separators=(",", ":"))


def saved() -> Iterator[tuple[str, str]]:
    """Each saved pass, and the decisions of its plan as text."""
    with gzip.open(FILE, "rt", encoding="ascii") as lines:
        for line in lines:
            entry = json.loads(line)
            yield entry["pass"], entry["plan"]


def a_policy(draw: random.Random) -> Policy:
    return Policy(
        merge=draw.random() < 0.7,
        order=draw.choice(list(OrderMode)),
        backfill=draw.choice(list(BackfillMode)),
        preemption=draw.choice(list(PreemptionMode)),
        reservations=draw.choice([1, 2]),
        protection_seconds=draw.choice([0, 1_800]),
        bypass_limit=draw.choice([1, 3, 10_000]),
        moves=draw.choice([0, 0, 2]),
        warm=draw.random() < 0.6,
    )


def passes() -> Iterator[tuple[ClusterSnapshot, Policy]]:
    for number, world in enumerate([*_random_worlds(), *_busy_worlds()]):
        yield world, a_policy(random.Random(number))


def _random_worlds() -> list[ClusterSnapshot]:
    """The first worlds that hypothesis makes: always the same ones of one version of it."""
    found: list[ClusterSnapshot] = []

    @settings(
        max_examples=WORLDS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(world=worlds(max_jobs=9), bypassed=st.integers(0, 3))
    def collect(world: ClusterSnapshot, bypassed: int) -> None:
        first, *others = world.jobs
        found.append(replace(world, jobs=(replace(first, bypassed=bypassed), *others)))

    collect()
    return found


def _busy_worlds() -> list[ClusterSnapshot]:
    """Whole GPUs, most of them held by jobs that end, and owners with past use or without."""
    found = []
    for number in range(BUSY_WORLDS):
        world, draw = a_world(number), random.Random(number)
        owners = (
            OwnerView(project, user, draw.randint(1, 3), draw.randrange(10**11))
            for project in "pq"
            for user in ("", "u", "v")
        )
        found.append(replace(world, owners=tuple(owners) if number % 2 else ()))
    return found


def main() -> None:
    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        for snapshot, policy in passes():
            text = write_pass(snapshot, policy)
            entry = {"pass": text, "plan": as_text(plan(*read_pass(text)))}
            file.write(json.dumps(entry).encode() + b"\n")


if __name__ == "__main__":
    main()
