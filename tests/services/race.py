"""Two committers after the last device, again and again: run as a program against PostgreSQL.

Prints how many rounds had how many winners, and whether any guard's books were wrong afterwards.
`unchecked` leaves out the committer's own check, so that only the database stands in the way.
"""

import json
import os
import sys
import threading
from collections import Counter

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db import IntegrityError, connection  # noqa: E402

from agents.contract.documents import SliceKind  # noqa: E402
from portal.allocations.models import Allocation  # noqa: E402
from portal.inventory.models import Gpu, Slice, SlotClaim  # noqa: E402
from portal.jobs.models import Attempt, Job  # noqa: E402
from portal.quotas.models import Quota  # noqa: E402
from scheduler.commit import placements as committer  # noqa: E402
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, ReplicaPlacement  # noqa: E402
from scheduler.core.model.states import JobStatus  # noqa: E402
from tests.support.rows import a_job, a_node, a_project, a_user  # noqa: E402


def main(rounds: int, mode: str) -> None:
    alice, bob = a_user("alice"), a_user("bob")
    project = a_project("vision", alice, bob, gpus=64)
    node = a_node("only")
    gpu = Gpu.objects.get()
    if mode == "unchecked":
        committer.reserve_if_legal = lambda *_: None
    jobs = [a_job(user, project, device={"gpus": 1}) for user in (alice, bob)]
    winners: Counter[int] = Counter()
    wrong = 0
    for _ in range(rounds):
        winners[_race([_place(job, node.row.pk, gpu) for job in jobs])] += 1
        wrong += _books_are_wrong()
        _reset(jobs)
    print(json.dumps({"rounds": rounds, "mode": mode, "winners": winners, "wrong": wrong}))


def _place(job: Job, node: object, gpu: Gpu) -> JobPlacement:
    device = DevicePlacement(
        gpu=str(gpu.pk),
        kind=SliceKind.GPU,
        profile="",
        start=0,
        size=8,
        units=56_000,
        memory_mib=gpu.memory_mib,
    )
    replica = ReplicaPlacement(rank=0, node=str(node), devices=(device,))
    return JobPlacement(job=str(job.pk), replicas=(replica,))


def _race(places: list[JobPlacement]) -> int:
    """How many of the placements were committed when all start at the same moment."""
    start = threading.Barrier(len(places))
    won: list[bool] = []

    def run(place: JobPlacement) -> None:
        start.wait()
        try:
            won.append(bool(committer.placements_commit([place])))
        except IntegrityError:
            won.append(False)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(won)


def _books_are_wrong() -> bool:
    held = Allocation.objects.count()
    used = Quota.objects.get(user=None).used_units
    return (held, SlotClaim.objects.count(), used) != (1, 8, 56_000)


def _reset(jobs: list[Job]) -> None:
    Attempt.objects.all().delete()
    SlotClaim.objects.all().delete()
    Slice.objects.all().delete()
    Quota.objects.update(used_units=0)
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(status=JobStatus.QUEUED)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
