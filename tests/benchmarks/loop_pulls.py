"""How long a cancel takes while a node pulls eight images of 60 s each.

The whole product on one machine: portal, worker and agent are processes, with PostgreSQL and Redis;
the agent's engine pulls from a registry that sends each layer slowly. Times are from sending the
cancel over REST: for a running job until its program receives SIGTERM, for a pulling one until the
registry loses the connection.
"""

import re
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from docs.examples.build_image import build_image
from tests.benchmarks.latency import no_engine
from tests.environment.docker_engine import running_engine, standing_engine
from tests.environment.image_registry import ImageRegistry, running_registry
from tests.environment.postgres import running_postgres
from tests.environment.redis import running_redis
from tests.services.stack import Stack, until

PULLS, PULL_SECONDS, CANCELS = 8, 60, 3
SECONDS = 120.0
# Says when it was stopped, in nanoseconds since the Unix epoch.
SAY_WHEN_STOPPED = """
import signal, sys, threading, time
def stopped(*_):
    print("stopped", time.time_ns(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stopped)
print("started", flush=True)
threading.Event().wait()
"""


def pull_waits() -> dict[str, Any]:
    """In milliseconds; {"skipped": why} on a machine without an engine."""
    if standing_engine() is None and (reason := no_engine()):
        return {"skipped": reason}
    with (
        running_postgres() as postgres,
        running_redis() as redis,
        running_engine() as engine,
        running_registry(engine) as registry,
        tempfile.TemporaryDirectory(prefix="tessera-loop-") as folder,
    ):
        build_image(engine)
        stack = Stack(
            var=Path(folder) / "tessera",
            database_url=postgres.create_database(migrated=True),
            redis_url=redis.url(),
            docker_url=engine,
            nodes=("node-a",),
        )
        with stack:
            return _measured(stack, registry)


def _measured(stack: Stack, registry: ImageRegistry) -> dict[str, Any]:
    running = [stack.submit(["python3", "-c", SAY_WHEN_STOPPED]) for _ in range(CANCELS)]
    for job in running:
        stack.until_status(job, "running", seconds=SECONDS)
        _until(lambda j=job: "started" in _log(stack, j), "a running job")
    page, began = _signed_in(stack), time.time()
    kind = f"seconds-{PULL_SECONDS}"
    images = {registry.image(kind, f"p{n}"): f"{kind}/p{n}" for n in range(PULLS)}
    pulling = {stack.submit(["true"], image=image): image for image in images}
    for job in pulling:
        _until(lambda j=job: _pull(stack, j), "a pull")
    first = _begun(registry, pulling, images)[0]
    _until(lambda: _page_has_progress(page, stack, first), "progress on the page")
    seen_after = 1_000 * (time.time() - began)
    to_container = [_cancel_running(stack, job) for job in running]
    to_registry = []
    for _ in range(CANCELS):
        job = _begun(registry, pulling, images)[0]
        to_registry.append(_cancel_pulling(stack, registry, job, images[pulling.pop(job)]))
    still = sum(_pull(stack, job) is not None for job in pulling)
    page.close()
    return {
        "pulls": PULLS,
        "seconds_each": PULL_SECONDS,
        "page_shows_progress_ms": round(seen_after, 1),
        "cancel_running_ms": longest_and_median(to_container),
        "cancel_pulling_ms": longest_and_median(to_registry),
        "pulls_that_went_on": still,
    }


def _cancel_running(stack: Stack, job: str) -> float:
    sent = time.time_ns()
    stack.call("POST", f"/jobs/{job}/cancel")
    _until(lambda: "stopped" in _log(stack, job), "the end of a running job")
    found = re.search(r"stopped (\d+)", _log(stack, job))
    assert found
    return (int(found[1]) - sent) / 1e6


def _cancel_pulling(stack: Stack, registry: ImageRegistry, job: str, repository: str) -> float:
    sent = time.time()
    stack.call("POST", f"/jobs/{job}/cancel")
    _until(lambda: repository in registry.events("broken"), "the end of a pull")
    assert stack.job(job)["status"] == "cancelled"
    return 1_000 * (registry.events("broken")[repository] - sent)


def _begun(registry: ImageRegistry, pulling: dict[str, str], images: dict[str, str]) -> list[str]:
    """The jobs whose layer is being sent; an engine begins three at once by default."""
    found: list[str] = []

    def reached() -> bool:
        begun, broken = registry.events("begin"), registry.events("broken")
        found[:] = [j for j, i in pulling.items() if images[i] in begun and images[i] not in broken]
        return bool(found)

    _until(reached, "a layer")
    return found


def _pull(stack: Stack, job: str) -> dict[str, Any] | None:
    attempts = stack.job(job)["attempts"]
    return attempts[-1]["replicas"][0]["pull"] if attempts else None


def _log(stack: Stack, job: str) -> str:
    return str(stack.call("GET", f"/jobs/{job}/logs"))


def _signed_in(stack: Stack) -> httpx.Client:
    """A browser's session of alice."""
    client = httpx.Client(base_url=stack.url, trust_env=False, timeout=60, follow_redirects=True)
    form = client.get("/sign-in/").text
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert found
    fields = {"username": "alice", "password": stack.seeded["password"]}
    headers = {"Referer": f"{stack.url}/sign-in/"}
    answer = client.post(
        "/sign-in/", data=fields | {"csrfmiddlewaretoken": found[1]}, headers=headers
    )
    assert "sign-in" not in answer.url.path, "not signed in"
    return client


def _page_has_progress(page: httpx.Client, stack: Stack, job: str) -> bool:
    """Whether the job's page says how much has come."""
    text = page.get(f"/jobs/{job}").text
    return re.search(r"The image is being pulled: [1-9]\d* MiB", text) is not None


def _until(reached: Any, what: str) -> None:
    until(reached, seconds=SECONDS, what=what)


def longest_and_median(waits: list[float]) -> dict[str, float]:
    """Of milliseconds."""
    ordered = sorted(waits)
    return {"longest": round(ordered[-1], 1), "median": round(ordered[len(ordered) // 2], 1)}
