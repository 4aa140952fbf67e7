"""`make bench-adoption`: kill -9 of a real agent, again and again, while its containers run.

Prints one JSON object: how long until the next agent has adopted what runs, how many containers
were started a second time, and how many bytes of logs were lost or doubled. ADOPTION_KILLS (100).

Adopted: the portal has written down a whole report of the new agent with every replica running in
the same container, and the log of each goes on beyond where it stood at the kill. The time counts
from the start of the new process. It has Python's compiled files, as an installed agent has.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from docs.examples.build_image import build_image
from tests.benchmarks.latency import machine
from tests.environment.docker_engine import running_engine
from tests.services.stack import Stack, until

NODE = "node-a"
REPLICAS = 2
REPLICA_ROWS = """
SELECT r.container, r.status, r.log_bytes FROM jobs_replica r
JOIN jobs_attempt a ON a.id = r.attempt_id JOIN jobs_job j ON j.id = a.job_id
WHERE j.uid = ? ORDER BY r.rank
"""
BEAT = """
import itertools, time
for number in itertools.count():
    print(number, flush=True)
    time.sleep(0.005)
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the portal has written down of the node and the job's replicas, by rank. `epoch`: which
    run of the agent counts; `reported`: whether that one has sent a whole document."""

    epoch: int
    reported: bool
    replicas: tuple[tuple[str, str], ...]
    log_bytes: tuple[int, ...]

    def goes_on(self, stood: Standing) -> bool:
        """A hello clears `reported`, so that it is of the new agent here."""
        is_heard = self.epoch > stood.epoch and self.reported
        return is_heard and self.replicas == stood.replicas

    def logs_go_on(self, stood: Standing) -> bool:
        return all(now > then for now, then in zip(self.log_bytes, stood.log_bytes, strict=True))


def main() -> int:
    kills = int(os.environ.get("ADOPTION_KILLS", "100"))
    with running_engine() as engine, tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        build_image(engine)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        with Stack(var=Path(folder) / "tessera", docker_url=engine, nodes=(NODE,)) as stack:
            result = measure(stack, engine, kills)
    print(json.dumps({"machine": machine(), "kills": kills, **result}))
    return 0


def measure(stack: Stack, engine: str, kills: int) -> dict[str, Any]:
    job = stack.submit(
        ["python3", "-c", BEAT], replicas=REPLICAS, topology="any", cpu=1, time_limit="2h"
    )
    stack.until_status(job, "running")
    uid = stack.job(job)["uid"]
    with contextlib.closing(docker.DockerClient(base_url=engine, version="1.41")) as client:
        before = lives(client, uid)
        times = [killed_once(stack, job) for _ in range(kills)]
        restarted = sum(lives(client, uid).get(name) != life for name, life in before.items())
        with ThreadPoolExecutor(REPLICAS) as pool:
            said = [pool.submit(whole_output, client, uid, rank) for rank in range(REPLICAS)]
            stack.call("POST", f"/jobs/{job}/cancel")
            stack.until_status(job, "cancelled", seconds=90)
        wrong = [
            wrong_bytes(portal_log(stack, job, rank), said[rank].result())
            for rank in range(REPLICAS)
        ]
    reports, whole = zip(*times, strict=True)
    return {
        "adopted": sum(seconds < 5 for seconds in whole),
        "adoption_median_s": round(statistics.median(whole), 2),
        "adoption_max_s": round(max(whole), 2),
        "report_median_s": round(statistics.median(reports), 2),
        "report_max_s": round(max(reports), 2),
        "containers_restarted": restarted,
        "log_bytes": sum(len(output.result()) for output in said),
        "log_bytes_lost": sum(lost for lost, _ in wrong),
        "log_bytes_doubled": sum(doubled for _, doubled in wrong),
    }


def killed_once(stack: Stack, job: str) -> tuple[float, float]:
    """Seconds from the next agent's start until its report was heard, and until all is adopted."""
    uid = stack.job(job)["uid"]
    stack.kill(NODE)
    stood = standing(stack, uid)
    began = time.monotonic()
    stack.start_agent(NODE)
    until(lambda: standing(stack, uid).goes_on(stood), what="the new agent's report", every=0.02)
    reported = time.monotonic() - began
    until(lambda: standing(stack, uid).logs_go_on(stood), what="the logs to go on", every=0.02)
    adopted = time.monotonic() - began
    now = standing(stack, uid)
    assert now.goes_on(stood)
    assert {status for _, status in now.replicas} == {"running"}
    return reported, adopted


def standing(stack: Stack, uid: str) -> Standing:
    """Read past the portal's API, which keeps epochs and containers to itself."""
    path = f"file:{stack.var / 'tessera.sqlite3'}?mode=ro"
    with contextlib.closing(sqlite3.connect(path, uri=True, timeout=20)) as database:
        ((epoch, digest),) = database.execute(
            "SELECT epoch, observed_hash FROM inventory_node WHERE name = ?", (NODE,)
        )
        rows = database.execute(REPLICA_ROWS, (uid.replace("-", ""),)).fetchall()
    assert len(rows) == REPLICAS
    replicas = tuple((container, status) for container, status, _ in rows)
    return Standing(epoch, bool(digest), replicas, tuple(size for _, _, size in rows))


def lives(client: docker.DockerClient, uid: str) -> dict[str, tuple[int, str, int]]:
    """What would change if a container of the job were started again."""
    found = client.containers.list(filters={"label": f"tessera.job={uid}"})
    return {
        str(c.name): (
            c.attrs["State"]["Pid"],
            c.attrs["State"]["StartedAt"],
            c.attrs["RestartCount"],
        )
        for c in found
    }


def whole_output(client: docker.DockerClient, uid: str, rank: int) -> bytes:
    """All that the rank has said until its end, by the engine alone."""
    labels = [f"tessera.job={uid}", f"tessera.rank={rank}"]
    (container,) = client.containers.list(filters={"label": labels})
    return b"".join(container.logs(stream=True, follow=True))


def portal_log(stack: Stack, job: str, rank: int) -> bytes:
    """The log as the portal keeps it, page by page."""
    log = b""
    headers = {"Authorization": f"Token {stack.seeded['token']}"}
    while True:
        page = stack.http.get(
            f"{stack.url}/api/v1/jobs/{job}/logs",
            params={"rank": rank, "offset": len(log)},
            headers=headers,
        ).content
        if not page:
            return log
        log += page


def wrong_bytes(there: bytes, said: bytes) -> tuple[int, int]:
    """Bytes lost and bytes doubled in `there`. The program counts from 0, a number a line, so what
    it said is known up to the largest number that the log or the engine has: a stream of Docker
    20.10 that follows a container may end before the container's last words."""
    mine = there.splitlines(True)
    whole = [int(line) for line in (*mine, *said.splitlines(True)) if line.endswith(b"\n")]
    truth = Counter(b"%d\n" % number for number in range(max(whole, default=-1) + 1))
    lost, doubled = truth - Counter(mine), Counter(mine) - truth
    if not lost and not doubled:
        assert mine == sorted(mine, key=int), "every line is there once, but not in its order"
    return _byte_count(lost), _byte_count(doubled)


def _byte_count(lines: Counter[bytes]) -> int:
    return sum(len(line) * count for line, count in lines.items())


if __name__ == "__main__":
    sys.exit(main())
