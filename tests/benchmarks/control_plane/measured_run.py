"""One run of jobs through a cluster, from the first submit until nothing is held: its figures."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.control_plane.cluster import Cluster
from tests.benchmarks.control_plane.database import JobLife
from tests.benchmarks.control_plane.figures import (
    jobs_per_second,
    milliseconds,
    refill_steps,
    refills,
    spread,
)
from tests.benchmarks.control_plane.job_program import job_script
from tests.benchmarks.control_plane.job_request import job_request
from tests.benchmarks.control_plane.processes import spent
from tests.benchmarks.control_plane.replicas import ReplicaTimes
from tests.benchmarks.control_plane.submitters import Submits
from tests.benchmarks.control_plane.wire import HttpClient

MOST_FREQUENT = 12
WARM_UP = 2
# Between two single jobs: what is left to do after a job is not part of the next one's start.
QUIET_SECONDS = 0.3
# A whole job of today, several times over.
SECONDS_PER_JOB, LEAST_SECONDS = 2.0, 120.0


class Refused(Exception):
    """The portal takes no such submit; the sentence says why."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """`summary` is what is printed; the rest is what summaries of several runs are made of."""

    summary: dict[str, Any]
    lives: list[JobLife]
    times: dict[str, ReplicaTimes]


def measured(cluster: Cluster, jobs: int, submit: Callable[[], dict[str, Any]]) -> RunFigures:
    """`submit` has the jobs queued and returns what submitters print. Raises Refused if it could
    not, AssertionError if the jobs do not end."""
    reader = cluster.reader
    cluster.replica_times()
    after, events = reader.last_job(), reader.last_event()
    executed, cpu = reader.executed(), cluster.cpu()
    submitted = submit()
    if submitted["failures"]:
        raise Refused(f"{submitted['failures']} {submitted['sentence']}")
    cluster.until_settled(after, jobs, LEAST_SECONDS + SECONDS_PER_JOB * jobs)
    cpu_after, executed = cluster.cpu(), reader.executed().since(executed)
    lives, times = reader.lives(after), cluster.replica_times()
    steps = refills(lives, times)
    summary: dict[str, Any] = {
        "jobs": jobs,
        "jobs_per_s": jobs_per_second(lives, submitted["first_at"]),
        "submit_ms": spread(submitted["ms"]),
        "gpus_refilled": len(steps),
        "refill_ms": refill_steps(steps),
        "known_to_released_ms": spread(
            wait for life in lives for wait in milliseconds(life.known_ended_at, life.released_at)
        ),
        "sql_per_job": round(executed.statements() / jobs, 1),
        "foreign_key_checks_per_job": round(executed.foreign_key_checks() / jobs, 1),
        "transactions_per_job": round(executed.transactions / jobs, 1),
        "explicit_transactions_per_job": round(executed.explicit_transactions() / jobs, 1),
        "sql_ms_per_job": round(executed.milliseconds() / jobs, 1),
        "events_per_job": round((reader.last_event() - events) / jobs, 1),
        "cpu_ms_per_job": spent(cpu, cpu_after, jobs),
        "broken": {name: times for name, times in reader.broken(after).items() if times},
        "statements": executed.most_frequent(MOST_FREQUENT, jobs),
    }
    return RunFigures(summary, lives, times)


def submitted_by(cluster: Cluster, jobs: int, seconds: float, **settings: Any) -> RunFigures:
    """Jobs that are submitted over REST, as `settings` of the submitters say."""

    def submit() -> dict[str, Any]:
        people = cluster.submits(jobs=jobs, body=job_body(cluster, seconds), **settings)
        try:
            answer: dict[str, Any] = people.answer(LEAST_SECONDS + SECONDS_PER_JOB * jobs)
        finally:
            people.end()
        return answer

    return measured(cluster, jobs, submit)


def queued_at_once(cluster: Cluster, jobs: int) -> RunFigures:
    """Jobs that are in the queue already: what the control plane does without submits."""

    def submit() -> dict[str, Any]:
        return {"first_at": cluster.begin_queued(jobs), "ms": [], "failures": {}}

    return measured(cluster, jobs, submit)


def one_at_a_time(cluster: Cluster, jobs: int, seconds: float) -> dict[str, Any]:
    """Each job is submitted when the one before it is gone: what one person waits for. The first
    ones warm up the processes and count no further."""
    token, body = cluster.stack.seeded["token"], job_body(cluster, seconds)
    submits = Submits(HttpClient(cluster.stack.url), token, body)
    after = cluster.reader.last_job()
    with asyncio.Runner() as loop:
        for number in range(WARM_UP + jobs):
            loop.run(submits.one())
            cluster.until_settled(after, number + 1, LEAST_SECONDS)
            time.sleep(QUIET_SECONDS)
        loop.run(submits.client.close())
    times = cluster.replica_times()
    started = [times[life.uid].started_at for life in cluster.reader.lives(after)]
    starts = [(at - sent) * 1_000 for at, sent in zip(started, submits.sent_at, strict=True)]
    return {
        "jobs": jobs,
        "submit_ms": spread(submits.ms[WARM_UP:]),
        "submit_to_start_ms": spread(starts[WARM_UP:]),
    }


def job_body(cluster: Cluster, seconds: float) -> dict[str, Any]:
    script = job_script(seconds, cluster.times_file, "TESSERA_JOB")
    return job_request(["bash", "-c", script])
