"""Two committers that give gangs their networks at the same moment, again and again: run as a
program against PostgreSQL.

    python -m tests.services.network_race ROUNDS

Their nodes and quotas are different ones, so that only the network's own rows stand between them.
Prints how many rounds had how many winners, and how many left networks that overlap.
"""

import json
import os
import sys
import threading
from collections import Counter
from itertools import combinations

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db import connection  # noqa: E402 - after setup

from agents.contract.documents import SliceKind  # noqa: E402
from agents.contract.gang_network import NodeOverlay  # noqa: E402
from portal.gang_networks.models import AttemptNetwork  # noqa: E402
from portal.inventory.models import Gpu, Node, Slice, SlotClaim  # noqa: E402
from portal.jobs.models import Attempt, Job  # noqa: E402
from portal.quotas.models import Quota  # noqa: E402
from scheduler.commit.placements import placements_commit  # noqa: E402
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, ReplicaPlacement  # noqa: E402
from scheduler.core.model.states import JobStatus  # noqa: E402
from tests.support.rows import a_job, a_node, a_project, a_user  # noqa: E402


def main(rounds: int) -> None:
    places = [_place(name) for name in ("first", "second")]
    winners: Counter[int] = Counter()
    overlaps = 0
    for _ in range(rounds):
        winners[_race(places)] += 1
        networks = [row.addresses for row in AttemptNetwork.objects.all()]
        overlaps += sum(a.overlaps(b) for a, b in combinations(networks, 2))
        assert len(networks) == Attempt.objects.count()
        _reset()
    print(json.dumps({"winners": winners, "overlaps": overlaps}))


def _place(name: str) -> JobPlacement:
    """A gang over two nodes of its own."""
    user = a_user(name)
    job = a_job(user, a_project(name, user), device={"gpus": 1}, replicas=2, topology="any")
    nodes = []
    for number in (1, 2):
        node = a_node(f"{name}-{number}")
        key = (name[0] + str(number)) * 21 + "A="
        node.address = f"192.0.2.{number}"
        node.overlay = NodeOverlay("wireguard", 14_789, key)
        node.report()
        assert "overlay" in Node.objects.get(pk=node.row.pk).facts
        nodes.append(node)
    replicas = [
        ReplicaPlacement(rank=rank, node=str(node.row.pk), devices=(_device(node.row.pk),))
        for rank, node in enumerate(nodes)
    ]
    return JobPlacement(job=str(job.pk), replicas=tuple(replicas))


def _device(node: object) -> DevicePlacement:
    gpu = Gpu.objects.get(node=node)
    return DevicePlacement(
        gpu=str(gpu.pk),
        kind=SliceKind.GPU,
        profile="",
        start=0,
        size=8,
        units=56_000,
        memory_mib=gpu.memory_mib,
    )


def _race(places: list[JobPlacement]) -> int:
    start = threading.Barrier(len(places))
    won: list[bool] = []

    def run(place: JobPlacement) -> None:
        try:
            start.wait()
            won.append(bool(placements_commit([place])))
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == len(places), "one of them raised"
    return sum(won)


def _reset() -> None:
    Attempt.objects.all().delete()
    SlotClaim.objects.all().delete()
    Slice.objects.all().delete()
    Quota.objects.update(used_units=0)
    Job.objects.update(status=JobStatus.QUEUED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
