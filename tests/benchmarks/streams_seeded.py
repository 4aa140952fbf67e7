"""The half of `make bench-streams` that knows the rows: it seeds them, publishes counts as the
planning worker does, and makes logs grow."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from itertools import cycle, islice

import django

django.setup()

from django.db import connection  # noqa: E402 - after setup
from django.http import QueryDict  # noqa: E402
from django.utils import timezone  # noqa: E402

from portal.accounts.models import User  # noqa: E402
from portal.accounts.selectors import memberships_of  # noqa: E402
from portal.demo.scale import ClusterSize  # noqa: E402
from portal.jobs.models import Job, Replica  # noqa: E402
from portal.live.bell import ring  # noqa: E402
from portal.web.jobs.context import job_list_context  # noqa: E402
from scheduler.core.model.states import JobStatus  # noqa: E402
from tests.benchmarks.counts_publisher import Publisher  # noqa: E402
from tests.benchmarks.stream_readers import COOKIE  # noqa: E402
from tests.support.logs import write_log  # noqa: E402
from tests.support.scale_rows import client_of, known, seeded  # noqa: E402

OTHERS = """select count(*) from pg_stat_activity where datname = current_database()
    and backend_type = 'client backend' and pid <> pg_backend_pid()"""


def seed() -> None:
    """Rows, signed-in readers, and what each of them has open."""
    jobs = int(os.environ.get("STREAMS_JOBS", "10000"))
    nodes = int(os.environ.get("STREAMS_NODES", "1000"))
    seeded(ClusterSize(jobs=jobs, nodes=nodes), now=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    Replica.objects.update(log_bytes=0)
    streams = []
    for job in followed():
        cookie = cookie_of(job.owner)
        listed = job_list_context(job.owner, QueryDict(), memberships_of(job.owner))["stream"]
        paths = (f"/jobs/{job.label}/stream?tab=logs", listed, "/queue/stream", "/cluster/stream")
        streams.append([(path, cookie) for path in paths])
    # First one of each reader, then the next of each.
    in_turn = [one for each in zip(*streams, strict=True) for one in each]
    pages = ("/", "/jobs/", "/queue/", "/cluster/", "/usage/", f"/jobs/{known()['job']}/")
    opened = list(islice(cycle(in_turn), int(os.environ["STREAMS"])))
    alice = cookie_of(User.objects.get(username="alice"))
    print(json.dumps({"streams": opened, "pages": pages, "cookie": alice}))


def publish() -> None:
    """The counts of what is free, at the worker's pace, until the input ends."""
    publisher = Publisher()
    publisher.publish_if_due()
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.5)[0]:
        publisher.publish_if_due()
    print(json.dumps(publisher.result()))


def change() -> None:
    """A line a second in each log, until the input ends. Says how many connections others held."""
    replicas = [Replica.objects.get(attempt__job=job, rank=0) for job in followed()]
    print("ready", flush=True)
    most = number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        begun, number = time.monotonic(), number + 1
        for replica in replicas:
            data = f"step {number}\n".encode()
            write_log(replica, replica.log_bytes, data)
            replica.log_bytes += len(data)
            replica.save(update_fields=["log_bytes"])
            ring(f"job:{replica.attempt.job_id}")
        most = max(most, connections())
        time.sleep(max(0, begun + 1 - time.monotonic()))
    print(json.dumps({"connections": most, "lines_written": number}))


def followed() -> list[Job]:
    """One running job of each of READERS people, each with one attempt."""
    rows = Job.objects.filter(status=JobStatus.RUNNING).select_related("owner").order_by("pk")
    firsts: dict[int, Job] = {}
    for job in rows.filter(attempts__number=1).exclude(attempts__number=2):
        firsts.setdefault(job.owner_id, job)
    return list(firsts.values())[: int(os.environ.get("READERS", "30"))]


def connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(OTHERS)
        return int(cursor.fetchone()[0])


def cookie_of(user: User) -> str:
    return client_of(user.username).cookies[COOKIE].value


if __name__ == "__main__":
    {"seed": seed, "publish": publish, "change": change}[sys.argv[1]]()
