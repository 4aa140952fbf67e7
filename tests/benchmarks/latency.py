"""`make bench-latency`: from a submit to the job's own first statement, beside a bare start.

Both run on one machine, in turn: Tessera (REST, PostgreSQL, Celery over Redis, agent, runtime) and
the same start without it. Prints one JSON object. LATENCY_RUNS (30) is the number of each.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplica, Rendezvous
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_engine import OLDEST_API
from agents.runtime.docker_images import ChosenImage
from agents.runtime.docker_recipe import PORT
from docs.examples.build_image import IMAGE, build_image
from tests.environment import debian
from tests.environment.docker_engine import running_engine, standing_engine
from tests.environment.postgres import running_postgres
from tests.environment.redis import running_redis
from tests.services.stack import Stack, until

# The job's first statement: when did I start, in nanoseconds since the Unix epoch?
SAY_WHEN = "import time; print(time.time_ns(), flush=True)"
WARM_UP = 2
# Both sides get one whole core and this much memory: less would throttle the start itself.
MEMORY_MIB = 128
# Asking how the job does would take the processor from those who start it. Not part of any figure.
QUIET_SECONDS = 1.0


def main() -> int:
    runs = int(os.environ.get("LATENCY_RUNS", "30"))
    result: dict[str, Any] = {"runs": runs, "machine": machine()}
    with running_postgres() as postgres, running_redis() as redis:
        asked = os.environ.get("LATENCY_KINDS", "docker,process").split(",")
        kinds = {"docker": containers, "process": processes}
        for kind, measure in ((kind, kinds[kind]) for kind in asked):
            redis_url, database_url = redis.url(), postgres.create_database(migrated=True)
            result[kind] = measure(runs, database_url, redis_url)
    print(json.dumps(result))
    return 0


def processes(runs: int, database_url: str, redis_url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tessera-latency-") as folder:
        var = Path(folder)
        with one_node(var, database_url, redis_url) as stack:
            bare = lambda: bare_process(var / "bare.log")  # noqa: E731 - a word for one line
            return beside(runs, tessera(stack, [sys.executable, "-c", SAY_WHEN]), bare)


def containers(runs: int, database_url: str, redis_url: str) -> dict[str, Any]:
    if standing_engine() is None and (reason := no_engine()):
        return {"skipped": reason}
    with running_engine() as engine, tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        build_image(engine)
        var = Path(folder)
        with (
            one_node(var, database_url, redis_url, docker_url=engine) as stack,
            bare_containers(engine, var / "bare") as bare,
        ):
            return beside(runs, tessera(stack, ["python3", "-c", SAY_WHEN]), bare)


def no_engine() -> str:
    """Why none can be had; empty where one can."""
    if debian.DOCKERD.path() is None:
        return "dockerd is not installed"
    return debian.why_not("docker") or ""


def beside(
    runs: int, ours: Callable[[], float], bare: Callable[[], float]
) -> dict[str, float | list[float]]:
    """Medians in ms. In turn, so that a busy moment of the machine meets both."""
    for _ in range(WARM_UP):
        ours()
        bare()
    pairs = [(ours(), bare()) for _ in range(runs)]
    tessera_ms, bare_ms = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "tessera_ms": round(tessera_ms, 1),
        "bare_ms": round(bare_ms, 1),
        "ratio": round(tessera_ms / bare_ms, 2),
        "added_ms": round(statistics.median(mine - other for mine, other in pairs), 1),
        "tessera_p90_ms": round(statistics.quantiles([mine for mine, _ in pairs], n=10)[-1], 1),
    }


def tessera(stack: Stack, command: list[str]) -> Callable[[], float]:
    """Milliseconds from sending the POST to the job's first statement. Leaves the node idle."""

    def once() -> float:
        sent = time.time_ns()
        job = stack.submit(command, cpu=1, memory=f"{MEMORY_MIB}MiB")
        time.sleep(QUIET_SECONDS)
        seen = stack.until_status(job, "succeeded", "failed", "cancelled", "timed_out")
        assert seen["status"] == "succeeded", seen["result"]
        until(lambda: stack.call("GET", f"/jobs/{job}/logs"), what="the log")
        started = int(stack.call("GET", f"/jobs/{job}/logs").split()[0])
        # Else the next job would have a slice carved instead of taking the one that is there.
        until(lambda: not any(s["held"] for s in stack.call("GET", "/slices")["results"]))
        return (started - sent) / 1e6

    return once


def bare_process(log: Path) -> float:
    sent = time.time_ns()
    with log.open("wb") as out:
        subprocess.run([sys.executable, "-c", SAY_WHEN], stdout=out, check=True)
    return (int(log.read_text()) - sent) / 1e6


@contextmanager
def bare_containers(engine: str, home: Path) -> Iterator[Callable[[], float]]:
    """Create and start by the SDK: the agent's own options, on a network that is there already."""
    os.environ["DOCKER_HOST"] = engine
    runtime = DockerRuntime(home, "bare", NodePolicy(network="host", device_injection="nvidia"))
    client = docker.DockerClient(base_url=engine, version=OLDEST_API, timeout=60)
    command = ("python3", "-c", SAY_WHEN)
    replica = DesiredReplica(
        id="bare", job="bare", image=IMAGE, command=command, memory_mib=MEMORY_MIB
    )
    image = ChosenImage(IMAGE, "", client.images.get(IMAGE).attrs)
    meeting = Rendezvous("bare", PORT)
    options = runtime._options(replica, ["MIG-bare"], meeting, image)
    runtime._recipe.make_workspace(replica)
    runtime._recipe.write_launcher_files(replica, meeting)
    # A bridge of its own that is there already, as the agent's lanes are.
    network = client.networks.create("tessera-bench", driver="bridge")
    options["network"] = network.name
    assert options["device_requests"], "the devices are injected as by the agent"

    def once() -> float:
        sent = time.time_ns()
        container = client.containers.create(name="tessera-bare", **options)
        try:
            container.start()
            container.wait()
            return (int(container.logs().split()[0]) - sent) / 1e6
        finally:
            container.remove(force=True)

    try:
        yield once
    finally:
        network.remove()
        client.close()
        runtime.close()


def one_node(var: Path, database_url: str, redis_url: str, docker_url: str = "") -> Stack:
    """The whole product with one simulated node; a driver without delays of its own."""
    return Stack(
        var=var / "tessera",
        database_url=database_url,
        redis_url=redis_url,
        docker_url=docker_url,
        nodes=("node-a",),
    )


def machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    sys.exit(main())
