"""The runs of `make bench-scale`, and what is watched while they last."""

import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any

from tests.benchmarks.control_plane.cluster import Cluster
from tests.benchmarks.control_plane.database import Executed, JobLife
from tests.benchmarks.control_plane.figures import milliseconds, spread
from tests.benchmarks.control_plane.job_request import job_request
from tests.benchmarks.control_plane.processes import spent
from tests.benchmarks.control_plane.task_log import TaskLog

# How often the database and the log of the worker are read, and memory.
LOOK_SECONDS, MEMORY_SECONDS = 0.25, 10.0
# Of what should be over long before.
PATIENCE_SECONDS = 300.0
# Of memory, that are printed.
READINGS = 12
# Submits beside a burst, one a second.
BESIDE_BURST = 60


class Watch:
    """A cluster under load: its tasks, its memory, and how far its jobs are."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.reader = cluster, cluster.reader
        self.tasks = TaskLog(cluster.var / "worker.log")
        self.memory: list[dict[str, float]] = []
        self._begun = time.monotonic()
        # When sweeps were completed, by the database's clock.
        self._swept: list[datetime] = []

    def begin(self) -> None:
        """Count tasks and sweeps from now on."""
        self.tasks.begin()
        self._swept = [self.reader.now()]

    def figures(self) -> dict[str, Any]:
        """The longest time without a sweep, and what tasks were done, since `begin`."""
        moments = [*self._swept, self.reader.now()]
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
        return {"longest_without_sweep_s": round(max(gaps), 1), "tasks": self.tasks.figures()}

    def until(self, is_over: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        """Watch until it is over. False if time was up first."""
        end = time.monotonic() + seconds
        while not is_over() and time.monotonic() < end:
            self._look()
            time.sleep(LOOK_SECONDS)
        self._look()
        return is_over()

    def until_held(self) -> dict[str, Any]:
        """All nodes have reported and hold a call."""
        begun, nodes = time.monotonic(), self.cluster.nodes
        self.until(lambda: self.held() == nodes)
        return {"seconds": round(time.monotonic() - begun, 1), "held": self.held(), "nodes": nodes}

    def until_settled(self, after: int) -> bool:
        """All jobs behind this one have ended, and all devices are released."""
        ended = self.until(lambda: self.reader.unended(after) == 0)
        return self.until(lambda: self.reader.held_devices() == 0) and ended

    def held(self) -> int:
        assert self.cluster.agents
        return int(self.cluster.agents.ask("state")["held"])

    def reports(self) -> dict[str, Any]:
        """What the agents saw since this was asked last."""
        assert self.cluster.agents
        tally = self.cluster.agents.ask("tally", 120)
        reports = {
            "reports_probed": len(tally["report_ms"]),
            "report_ms": spread(tally["report_ms"]),
        }
        return reports | {"calls": tally["calls"], "agent_failures": tally["failures"]}

    def _look(self) -> None:
        self.tasks.read()
        swept = self.reader.swept_at()
        if swept and self._swept and swept > self._swept[-1]:
            self._swept.append(swept)
        at = time.monotonic() - self._begun
        if not self.memory or at >= self.memory[-1]["at_s"] + MEMORY_SECONDS:
            self.memory.append({"at_s": round(at, 1), **self.cluster.memory()})


def steady(watch: Watch, rate: float, seconds: float) -> dict[str, Any]:
    """Submits at a rate, on a cluster with room for all."""
    cluster, jobs = watch.cluster, round(rate * seconds)
    watch.reports()
    after = watch.reader.last_job()
    cpu, begun = cluster.cpu(), time.monotonic()
    watch.begin()
    people = cluster.submits(jobs=jobs, rate=rate, body=job_request(["true"]))
    try:
        watch.until(people.has_answered, seconds + PATIENCE_SECONDS)
        submitted = people.answer(1)
    finally:
        people.end()
    took = time.monotonic() - begun
    cores = {name: round((now - cpu[name]) / took, 2) for name, now in cluster.cpu().items()}
    figures = watch.figures()
    is_settled = watch.until_settled(after)
    lives = watch.reader.lives(after)
    return {
        "submits": jobs,
        "submit_ms": spread(submitted["ms"]),
        "submit_failures": submitted["failures"],
        **_placements(lives),
        "placed_ms_by_minute": _by_minute(lives),
        **watch.reports(),
        **figures,
        "cores": cores,
        "memory_mib": _memory(watch.memory),
        "settled": is_settled,
        "broken": _broken(watch, after),
    }


def burst(watch: Watch, jobs: int) -> dict[str, Any]:
    """So many jobs in the queue at once, one submit a second beside them."""
    cluster, reader = watch.cluster, watch.reader
    after = reader.last_job()
    executed, cpu = reader.executed(), cluster.cpu()
    begun_at = cluster.begin_queued(jobs)
    # A sweep is noticed when somebody looks, and nobody did until here.
    watch.begin()
    beside = {"jobs": min(jobs, BESIDE_BURST), "rate": 1, "body": job_request(["true"])}
    people = cluster.submits(**beside)
    try:
        are_placed = watch.until(lambda: reader.placed(after) >= jobs)
        figures = watch.figures() | {"until_placed": _costs(watch, jobs, cpu, executed)}
        watch.until(people.has_answered)
        submitted = people.answer(1)
    finally:
        people.end()
    placed = sorted(life.placed_at.timestamp() for life in reader.lives(after) if life.placed_at)
    last = placed[min(jobs, len(placed)) - 1] if placed else begun_at
    is_settled = watch.until_settled(after)
    figures["until_settled"] = _costs(watch, jobs, cpu, executed)
    return {
        "jobs": jobs,
        "placed": min(jobs, len(placed)),
        "all_placed": are_placed,
        "placed_within_s": round(last - begun_at, 1),
        "submit_ms": spread(submitted["ms"]),
        "submit_failures": submitted["failures"],
        **figures,
        "memory_mib": _memory(watch.memory),
        "settled": is_settled,
        "broken": _broken(watch, after),
    }


def restart(watch: Watch) -> dict[str, Any]:
    """kill -9 of the web process of agents, and its start: until all nodes hold a call again, each
    in a new session, and until a job that is submitted then runs. Held calls are seen in the
    database: what the agents themselves see is the answer to one, up to 24 s later."""
    cluster, reader = watch.cluster, watch.reader
    epochs, nodes = reader.epochs(), cluster.nodes
    begun = time.monotonic()
    cluster.stack.kill("agent-web")
    cluster.stack.start_agent_web()
    serving = time.monotonic()
    watch.until(lambda: reader.epochs() >= epochs + nodes and reader.in_contact() == nodes)
    held = time.monotonic()
    watch.until(lambda: watch.held() == nodes)
    answered = time.monotonic()
    after = reader.last_job()
    people = cluster.submits(jobs=1, clients=1, body=job_request(["true"]))
    try:
        submitted = people.answer(PATIENCE_SECONDS)
    finally:
        people.end()
    watch.until(lambda: reader.unended(after) == 0)
    (life,) = reader.lives(after)
    started = life.known_started_at
    return {
        "serving_after_s": round(serving - begun, 1),
        "held_after_s": round(held - begun, 1),
        "held": watch.held(),
        "answered_after_s": round(answered - begun, 1),
        "job_runs_after_s": started and round(started.timestamp() - submitted["first_at"], 2),
        **watch.reports(),
    }


def _costs(watch: Watch, jobs: int, cpu: dict[str, float], executed: Executed) -> dict[str, Any]:
    """What a job of the burst has cost since these were read: steady on a busy machine as well."""
    done = watch.reader.executed().since(executed)
    return {
        "sql_per_job": round(done.statements() / jobs, 1),
        "transactions_per_job": round(done.transactions / jobs, 1),
        "cpu_ms_per_job": spent(cpu, watch.cluster.cpu(), jobs),
    }


def _placements(lives: list[JobLife]) -> dict[str, Any]:
    steps = {
        "placed_ms": [w for one in lives for w in milliseconds(one.submitted_at, one.placed_at)],
        "running_ms": [
            w for one in lives for w in milliseconds(one.submitted_at, one.known_started_at)
        ],
        "known_to_released_ms": [
            w for one in lives for w in milliseconds(one.known_ended_at, one.released_at)
        ],
    }
    return {name: spread(waits) for name, waits in steps.items()}


def _by_minute(lives: list[JobLife]) -> list[dict[str, float | None]]:
    """How long the jobs of each minute waited for their devices: a stall of a long run shows."""
    minutes: dict[int, list[float]] = defaultdict(list)
    for life in lives:
        minute = int((life.submitted_at - lives[0].submitted_at).total_seconds() // 60)
        minutes[minute] += milliseconds(life.submitted_at, life.placed_at)
    return [spread(waits) for _, waits in sorted(minutes.items())]


def _memory(readings: list[dict[str, float]]) -> dict[str, Any]:
    """Of web and worker: first, largest and last; and some readings in between."""
    names = [name for name in readings[0] if name != "at_s"]
    ends = {
        name: {
            "first": readings[0][name],
            "largest": max(reading[name] for reading in readings),
            "last": readings[-1][name],
        }
        for name in names
    }
    return ends | {"readings": readings[:: max(1, len(readings) // READINGS)]}


def _broken(watch: Watch, after: int) -> dict[str, int]:
    return {name: times for name, times in watch.reader.broken(after).items() if times}
