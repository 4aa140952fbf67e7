"""A pass that is killed (kill -9) at each of its statements in turn, and the pass after it: run as
a program against PostgreSQL.

    python -m tests.services.broken_passes STEP

Every STEP-th statement is tried. Prints how many jobs the first pass left placed, how often it was
tried, and what was wrong in the rows after one of the two passes.
"""

import json
import os
import signal
import sys
from collections import Counter
from itertools import count
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db import connection  # noqa: E402
from django.db.models import Sum  # noqa: E402
from django.utils import timezone  # noqa: E402

from portal.allocations.models import Allocation  # noqa: E402
from portal.audit.models import Event  # noqa: E402
from portal.inventory.models import Node, Slice, SlotClaim  # noqa: E402
from portal.jobs.models import Attempt, Job, Replica  # noqa: E402
from portal.live import bell  # noqa: E402
from portal.quotas.models import Quota  # noqa: E402
from scheduler import tasks  # noqa: E402
from scheduler.commit import plan as commit_plan  # noqa: E402
from scheduler.core.model.states import JobStatus  # noqa: E402
from scheduler.jit_warmup import before_fork  # noqa: E402
from tests.support.many_jobs import many_jobs  # noqa: E402
from tests.support.rows import a_job, a_node, a_project, a_user  # noqa: E402

JOBS, BATCH = 6, 2


def broken_pass(number: int) -> bool:
    """A pass in a process of its own, like a worker's, killed before its `number`-th statement, if
    there are as many. Whether it was killed."""
    # The two processes share no connection.
    connection.close()
    connection.close_pool()
    child = os.fork()
    if child == 0:
        numbers = count(1)

        def execute(run: Any, *arguments: Any) -> Any:
            if next(numbers) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return run(*arguments)

        with connection.execute_wrapper(execute):
            tasks.plan_once()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status != 0


def problems() -> list[str]:
    """What is not as it should be, whatever was broken off."""
    jobs, placed = Job.objects.all(), Job.objects.filter(status=JobStatus.PLACED)
    live = Allocation.objects.live()
    units = live.aggregate(units=Sum("units"))["units"] or 0
    found = {
        "a job that is placed in part": placed.count() % BATCH,
        "a job that is lost": jobs.exclude(status__in=[JobStatus.QUEUED, JobStatus.PLACED]).count(),
        "attempts": Attempt.objects.count() - placed.count(),
        "replicas": Replica.objects.count() - placed.count(),
        "allocations": live.count() - placed.count(),
        "slices": Slice.objects.count() - placed.count(),
        "claims": SlotClaim.objects.count() - 8 * placed.count(),
        "quota": Quota.objects.get().used_units - units,
        "events": Event.objects.filter(new=JobStatus.PLACED).count() - placed.count(),
    }
    return [name for name, wrong in found.items() if wrong]


def reset() -> None:
    Event.objects.filter(new=JobStatus.PLACED).delete()
    Attempt.objects.all().delete()
    SlotClaim.objects.all().delete()
    Slice.objects.all().delete()
    Quota.objects.update(used_units=0)
    Job.objects.update(status=JobStatus.QUEUED, reason=None, position=None)
    # A long pass sweeps: on a busy machine the node would be silent for too long.
    Node.objects.update(last_seen_at=timezone.now())


def main(step: int) -> None:
    bell._send = lambda *_: True
    commit_plan.BATCH_SIZE = BATCH
    # A busy machine must not end a pass.
    tasks.DECIDE_SECONDS = tasks.COMMIT_WITHIN_SECONDS = 600
    before_fork()
    alice = a_user("alice")
    a_node("only", gpus=JOBS)
    many_jobs(a_job(alice, a_project("vision", alice), device={"gpus": 1}), JOBS - 1, reason=None)
    left, wrong, number = Counter[int](), Counter[str](), 1
    while broken_pass(number):
        left[Job.objects.filter(status=JobStatus.PLACED).count()] += 1
        wrong.update(f"{name}, after statement {number}" for name in problems())
        broken_pass(0)
        if Job.objects.queued().exists():
            wrong[f"the next pass did not place all, after statement {number}"] += 1
        wrong.update(f"{name}, after the next pass" for name in problems())
        reset()
        number += step
    print(json.dumps({"left": sorted(left), "tried": sum(left.values()), "wrong": wrong}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
