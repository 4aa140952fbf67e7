"""`make bench-agent-door`: what bodies of 1 MiB at the agents' endpoint do to everybody else.

One web process with PostgreSQL. `/healthz` is called in sequence: alone; while 6 callers
without a key send 1 MiB each at the same time, and again a moment after they have their answers;
while they send it as hellos; while they have the key of a node; while those without a key send
as fast as they can; and alone again. Prints one JSON object: times of `/healthz`, the event loop's
longest stall, and how the bodies were answered. `over` names what is beyond its bound: alone plus
50 ms at the 99th percentile. The flood has no bound: its callers take most of the processors of
this machine, which real ones would not. DOOR_SECONDS (15) is the length of each part.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from typing import Any

import httpx

from agents.contract.calls import HELLO_PATH, SYNC_PATH
from tests.benchmarks.latency import machine
from tests.benchmarks.one_web import ROOT, printed_words, running_web, web_environ
from tests.environment.postgres import running_postgres

CALLERS = 6
# The review's body: as many of the shortest replicas as 1 MiB holds.
REPLICAS = 49_902
ADDED_MS = 50
# Until the next body. Decoded as before, six bodies take some seconds.
PAUSE_SECONDS = 0.25
NEW_NODE = """
from tests.support.node_tokens import a_greeted_node
print(a_greeted_node("stolen")[1])
"""


def main() -> int:
    seconds = float(os.environ.get("DOOR_SECONDS", "15"))
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as folder:
        environ = web_environ(postgres.create_database(migrated=True), folder)
        token = printed_words(environ, NEW_NODE)[-1]
        with running_web("tests.benchmarks.stall_watch:application", environ) as (url, _):
            found = _parts(environ, url, seconds, token)
    print(json.dumps({"machine": machine(), "seconds": seconds, **found, "over": over(found)}))
    return 0


def over(found: dict[str, Any]) -> list[str]:
    """What is beyond its bound."""
    alone = found["alone"]["p99_ms"]
    attacked = ("bodies_without_a_key", "hellos_without_a_key", "bodies_with_a_node_key")
    return [part for part in attacked if found[part]["p99_ms"] > alone + ADDED_MS]


def _parts(environ: dict[str, str], url: str, seconds: float, token: str) -> dict[str, Any]:
    _healthz(url, 2)
    return {
        "alone": _healthz(url, seconds),
        "bodies_without_a_key": _beside(environ, url, seconds, SYNC_PATH, ""),
        "hellos_without_a_key": _beside(environ, url, seconds, HELLO_PATH, ""),
        "bodies_with_a_node_key": _beside(environ, url, seconds, SYNC_PATH, token),
        "flood_without_a_key": _beside(environ, url, seconds, SYNC_PATH, "", pause=0),
        "alone_again": _healthz(url, seconds),
    }


def _beside(
    environ: dict[str, str],
    url: str,
    seconds: float,
    path: str,
    token: str,
    pause: float = PAUSE_SECONDS,
) -> dict[str, Any]:
    """`/healthz` while the callers send their bodies."""
    words = ("send", url, path, str(seconds + 4), str(pause), token)
    callers = [_program(environ, *words) for _ in range(CALLERS)]
    try:
        # Each prints a line with its first answer.
        for caller in callers:
            assert caller.stdout is not None
            caller.stdout.readline()
        found = _healthz(url, seconds)
        answers: Counter[str] = Counter()
        for caller in callers:
            answers.update(json.loads(caller.communicate(timeout=120)[0].splitlines()[-1]))
    finally:
        for caller in callers:
            caller.kill()
    return found | {"answers": dict(sorted(answers.items()))}


def _healthz(url: str, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        client.get("/stall")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            client.get("/healthz").raise_for_status()
            times.append((time.perf_counter() - begun) * 1000)
        stall = float(client.get("/stall").text)
    times.sort()
    return {
        "calls": len(times),
        "p50_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[int(len(times) * 0.99)], 1),
        "max_ms": round(times[-1], 1),
        "longest_stall_ms": stall,
    }


def _program(environ: dict[str, str], *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.benchmarks.agent_door", *words]
    return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)


def send(url: str, path: str, seconds: str, pause: str, token: str) -> None:
    """One caller: the same body again and again, on a connection that lasts if the portal lets it.

    Prints a line after the first answer, and at the end how many there were of each status.
    """
    observed = {"node": "n", "replicas": [{"id": "a", "job": "j"}] * REPLICAS}
    body = {"epoch": 1, "applied_revision": 0, "observed_hash": "", "observed": observed}
    data = json.dumps(body, separators=(",", ":")).encode()[: 1 << 20]
    headers = {"Authorization": f"Agent {token or uuid.uuid4().hex + '.x'}"}
    host, _, port = url.removeprefix("http://").partition(":")
    answers: Counter[str] = Counter()
    end = time.monotonic() + float(seconds)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    while time.monotonic() < end:
        try:
            connection.request("POST", path, data, headers)
            answer = connection.getresponse()
            answer.read()
            answers[str(answer.status)] += 1
        except (OSError, http.client.HTTPException) as error:
            # The portal closed the connection before it had read the body.
            answers[type(error).__name__] += 1
            connection.close()
        if sum(answers.values()) == 1:
            print("begun", flush=True)
        time.sleep(float(pause))
    print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        send(*sys.argv[2:])
    else:
        sys.exit(main())
