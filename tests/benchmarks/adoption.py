"""`make bench-adoption`: kill -9 of a real agent, again and again, while its containers run.

Prints one JSON object: how long until the next agent has adopted what runs, how many containers
were started a second time, and how many log lines were lost or doubled. ADOPTION_KILLS (100).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import docker

from docs.examples.build_image import build_image
from tests.benchmarks.latency import machine
from tests.environment.docker_engine import running_engine
from tests.services.stack import Stack, until

NODE = "node-a"
REPLICAS = 2
BEAT = """
import itertools, time
for number in itertools.count():
    print(number, flush=True)
    time.sleep(0.005)
"""


def main() -> int:
    kills = int(os.environ.get("ADOPTION_KILLS", "100"))
    with running_engine() as engine, tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        build_image(engine)
        with Stack(var=Path(folder) / "tessera", docker_url=engine, nodes=(NODE,)) as stack:
            result = measure(stack, engine, kills)
    print(json.dumps({"machine": machine(), "kills": kills, **result}))
    return 0


def measure(stack: Stack, engine: str, kills: int) -> dict[str, Any]:
    job = stack.submit(
        ["python3", "-c", BEAT], replicas=REPLICAS, topology="any", cpu=1, time_limit="2h"
    )
    stack.until_status(job, "running")
    client = docker.DockerClient(base_url=engine, version="1.41")
    uid = stack.job(job)["uid"]
    before = lives(client, uid)
    seconds = [killed_once(stack, job) for _ in range(kills)]
    restarted = sum(lives(client, uid).get(name) != life for name, life in before.items())
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled", seconds=90)
    wrong = sum(wrong_lines(stack, job, rank) for rank in range(REPLICAS))
    client.close()
    return {
        "adopted": sum(s < 5 for s in seconds),
        "adoption_median_s": round(statistics.median(seconds), 2),
        "adoption_max_s": round(max(seconds), 2),
        "containers_restarted": restarted,
        "log_lines_lost_or_doubled": wrong,
    }


def killed_once(stack: Stack, job: str) -> float:
    """Seconds from the next agent's start until the log goes on beyond where it stood."""
    stack.kill(NODE)
    stood = [log_bytes(stack, job, rank) for rank in range(REPLICAS)]
    began = time.monotonic()
    stack.start_agent(NODE)
    for rank in range(REPLICAS):
        until(lambda rank=rank: log_bytes(stack, job, rank) > stood[rank], what="the log to go on")
    assert stack.job(job)["status"] == "running"
    return time.monotonic() - began


def log_bytes(stack: Stack, job: str, rank: int) -> int:
    (attempt,) = stack.job(job)["attempts"]
    return int(attempt["replicas"][rank]["log_bytes"])


def lives(client: docker.DockerClient, uid: str) -> dict[str, tuple[int, str, int]]:
    """What would change if a container of the job were started again."""
    found = client.containers.list(filters={"label": f"tessera.job={uid}"})
    return {
        c.name: (c.attrs["State"]["Pid"], c.attrs["State"]["StartedAt"], c.attrs["RestartCount"])
        for c in found
    }


def wrong_lines(stack: Stack, job: str, rank: int) -> int:
    """Lines that are not the next number. The log is read page by page."""
    text, offset = b"", 0
    headers = {"Authorization": f"Token {stack.seeded['token']}"}
    while True:
        page = stack.http.get(
            f"{stack.url}/api/v1/jobs/{job}/logs",
            params={"rank": rank, "offset": offset},
            headers=headers,
        ).content
        if not page:
            break
        text, offset = text + page, offset + len(page)
    lines = text.decode().splitlines()
    return sum(line != str(number) for number, line in enumerate(lines))


if __name__ == "__main__":
    sys.exit(main())
