"""Writes what a benchmark starts from: run as a program with the product's settings.

python -m tests.benchmarks.control_plane.seed GPUS NAME...    # nodes with GPUS each, a person
python -m tests.benchmarks.control_plane.seed queue JOBS      # so many jobs of hers at once
"""

import sys
import time

from django.db import transaction

from tests.services import seed  # isort: skip - sets Django up before its models are imported

from portal.accounts.models import Project, User
from portal.live.bell import ring_plan
from portal.quotas.models import Quota
from tests.benchmarks.control_plane.job_request import job_request
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job

UNITS = 56_000


def cluster(gpus: int, nodes: list[str]) -> None:
    seed.main(nodes)
    units = gpus * len(nodes) * UNITS
    Quota.objects.update(limit_units=units, guard_units=units)


def queue(jobs: int) -> None:
    alice, project = User.objects.get(username="alice"), Project.objects.get()
    with transaction.atomic():
        like = a_job(alice, project, **job_request(["true"]))
        many_jobs(like, jobs - 1, reason=None)
        ring_plan()
    print(time.time())


if __name__ == "__main__":
    if sys.argv[1] == "queue":
        queue(int(sys.argv[2]))
    else:
        cluster(int(sys.argv[1]), sys.argv[2:])
