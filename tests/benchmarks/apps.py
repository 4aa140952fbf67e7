"""`make bench-apps`: what the portal adds between a client and a model server in a job.

One web process, a worker and two agents with plain processes; on each node a job whose app speaks
as an OpenAI server does (`apps_server.py`). A client calls with a token for the project's apps, and
directly beside that, in turn, in the same run; without TLS, on this machine. Prints as JSON: the
latency of small requests by both ways and what the portal adds, the processor time that its
processes need for one (which other work on the machine hardly changes), how tokens of a streamed
answer arrive, an upload of MIB (1024) with the growth of the web process, echoes while IDLE (1000)
WebSockets of one app are open and BUSY (200) of the other one talk, and the usage that the tokens
have afterwards. `over` names what is beyond its bound.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import connect

from tests.benchmarks.apps_server import TOKENS
from tests.benchmarks.latency import machine
from tests.environment.programs import free_port
from tests.environment.redis import running_redis
from tests.services.stack import ROOT, Stack, until

MIB = 1 << 20
CALLS, WARM_UP, IDLE_SECONDS = 500, 20, 5.0
ECHO_SECONDS, ECHO_PAUSE = 20.0, 1.0
OPENING = 50
MOST_P50_MS, MOST_P99_MS, MOST_GROWTH_MIB = 5.0, 20.0, 64.0
TOKEN = """
from datetime import timedelta
from portal.accounts.models import Project, User
from portal.apps.tokens import app_token_create
user, project = User.objects.get(username="alice"), Project.objects.get(slug="vision")
for name in ("calls", "sockets"):
    options = {"project": project, "job": None, "app": "", "ttl": timedelta(hours=1)}
    print(app_token_create(user=user, name=name, **options)[1])
"""
USAGE = """
import json
from portal.apps.models import AppToken
print(json.dumps({row.name: [row.requests, row.bytes_in, row.bytes_out]
    for row in AppToken.objects.all()}))
"""


class App:
    """The app of one job, by both ways."""

    def __init__(self, stack: Stack, token: str) -> None:
        port = free_port()
        serving = ["uvicorn", "tests.benchmarks.apps_server:application", "--app-dir", str(ROOT)]
        serving += ["--port", str(port), "--log-level", "warning"]
        command = [sys.executable, "-m", *serving]
        fields = {"apps": [f"llm:{port}"], "device": {"gpus": 1}, "time_limit": "1h"}
        self.job = stack.submit(command, **fields)
        stack.until_status(self.job, "running")
        host = f"llm--j{self.job.removeprefix('J-')}.localhost:{stack.port}"
        self.direct_url, self.url = f"http://127.0.0.1:{port}", stack.url
        self.headers = {"Host": host, "Authorization": f"Bearer {token}"}
        until(self._answers, what="the app to answer")

    def _answers(self) -> bool:
        found = httpx.get(f"{self.url}/small", headers=self.headers, trust_env=False, timeout=60)
        return found.status_code == 200


def main() -> int:
    mib, idle, busy = (
        int(os.environ.get(name, size))
        for name, size in (("MIB", "1024"), ("IDLE", "1000"), ("BUSY", "200"))
    )
    with running_redis() as redis, tempfile.TemporaryDirectory() as folder:
        stack = Stack(var=Path(folder), redis_url=redis.url(0), gpus=1)
        stack.extra_env = {"TESSERA_APPS_DOMAIN": "localhost"}
        with stack:
            calls, sockets = python(stack, TOKEN).splitlines()
            one, two = App(stack, calls), App(stack, sockets)
            load = os.getloadavg()[0]
            found: dict[str, Any] = {
                "latency_ms": latency(one),
                "processor_ms": processor_times(stack, one),
                "tokens": streamed(one),
                "upload": upload(one, mib, stack.running["web"].pid),
                "sockets": asyncio.run(socket_echoes(one, two, idle, busy)),
                "memory_of_web_mib": round(memory_mib(stack.running["web"].pid), 1),
            }
            until(lambda: usage(stack)["calls"][0] >= CALLS, what="the usage to be written")
            found["usage"] = usage(stack)
    verdict = {"machine": machine(), "load_before": load, **found, "over": over(found)}
    print(json.dumps(verdict, indent=1))
    return 0


def over(found: dict[str, Any]) -> list[str]:
    """What is beyond its bound."""
    added = found["latency_ms"]["added"]
    bounds = {
        "added_p50": (added["p50"], MOST_P50_MS),
        "added_p99": (added["p99"], MOST_P99_MS),
        "growth": (found["upload"]["growth_mib"], MOST_GROWTH_MIB),
        "sockets": (found["sockets"]["failed"], 0),
    }
    return [name for name, (value, most) in bounds.items() if value > most]


def latency(app: App) -> dict[str, Any]:
    """Of small requests, one at a time, by both ways in turn: a busy moment meets both."""
    options: dict[str, Any] = {"trust_env": False, "timeout": 60}
    took: dict[str, list[float]] = {"direct": [], "portal": []}
    with httpx.Client(**options) as direct, httpx.Client(headers=app.headers, **options) as portal:
        ways = {"direct": (direct, app.direct_url), "portal": (portal, app.url)}
        for turn in range(WARM_UP + CALLS):
            for name, (client, url) in ways.items():
                begun = time.perf_counter()
                answer = client.get(f"{url}/small")
                if turn >= WARM_UP:
                    took[name].append((time.perf_counter() - begun) * 1_000)
                if answer.status_code != 200:
                    raise RuntimeError(f"{name}: {answer.status_code} {answer.text}")
    spreads = {name: spread(times) for name, times in took.items()}
    direct_ms, portal_ms = spreads["direct"], spreads["portal"]
    added = {key: round(portal_ms[key] - direct_ms[key], 2) for key in direct_ms}
    return spreads | {"added": added}


def processor_times(stack: Stack, app: App) -> dict[str, float]:
    """Of each process of the portal, for one small request: without what it needs meanwhile for
    other things, as of a time without requests."""
    pids = {name: stack.running[name].pid for name in ("web", *stack.nodes)}
    first = {name: processor_seconds(pid) for name, pid in pids.items()}
    time.sleep(IDLE_SECONDS)
    middle = {name: processor_seconds(pid) for name, pid in pids.items()}
    begun = time.monotonic()
    with httpx.Client(headers=app.headers, trust_env=False, timeout=60) as client:
        for _ in range(CALLS):
            client.get(f"{app.url}/small").raise_for_status()
    busy = time.monotonic() - begun
    found = {}
    for name, pid in pids.items():
        at_rest = (middle[name] - first[name]) / IDLE_SECONDS * busy
        used = processor_seconds(pid) - middle[name] - at_rest
        found[name] = round(max(used, 0.0) * 1_000 / CALLS, 2)
    return found


def processor_seconds(pid: int) -> float:
    """Of all threads that the process has and had (proc(5): utime and stime, in ticks)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def streamed(app: App) -> dict[str, Any]:
    """How the tokens of one answer arrive: together, if something on the way keeps them."""
    url, body = f"{app.url}/v1/chat/completions", {"stream": True, "messages": []}
    options: dict[str, Any] = {"headers": app.headers, "trust_env": False, "timeout": 60}
    arrivals: list[float] = []
    with httpx.Client(**options) as client, client.stream("POST", url, json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                arrivals.append(time.perf_counter())
    gaps = [(b - a) * 1_000 for a, b in pairwise(arrivals)]
    together = sum(gap < 1 for gap in gaps)
    return {"sent": TOKENS, "arrived": len(arrivals), "together": together, "gap_ms": spread(gaps)}


def upload(app: App, mib: int, web_pid: int) -> dict[str, Any]:
    """Of `mib` MiB by both ways, with the largest growth of the web process meanwhile."""
    seconds = {}
    for name, url, headers in (
        ("direct", app.direct_url, {}),
        ("portal", app.url, app.headers),
    ):
        with highest_memory(web_pid) as growth:
            begun = time.perf_counter()
            answer = httpx.put(
                f"{url}/upload",
                content=pieces(mib),
                headers=headers | {"Content-Length": str(mib * MIB)},
                trust_env=False,
                timeout=600,
            )
            seconds[name] = round(time.perf_counter() - begun, 2)
        if answer.json() != {"bytes": mib * MIB}:
            raise RuntimeError(answer.text)
    return {"mib": mib, "seconds": seconds, "growth_mib": round(growth(), 1)}


def pieces(mib: int) -> Iterator[bytes]:
    piece = os.urandom(MIB)
    for _ in range(mib):
        yield piece


async def socket_echoes(one: App, two: App, idle: int, busy: int) -> dict[str, Any]:
    """Echoes of `busy` WebSockets of one app while `idle` ones of the other are open, and of
    as many without the portal."""
    found: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        opening = asyncio.Semaphore(OPENING)

        async def opened(url: str, headers: dict[str, str]) -> Any:
            # The client writes Host by itself, from the address.
            place = urlsplit(url)
            address = f"ws://{headers.get('Host', place.netloc)}{place.path}"
            own = {name: value for name, value in headers.items() if name != "Host"}
            options: dict[str, Any] = {"host": place.hostname, "port": place.port, "proxy": None}
            async with opening:
                call = connect(address, additional_headers=own, open_timeout=60, **options)
                return await stack.enter_async_context(call)

        begun = time.perf_counter()
        still = await asyncio.gather(
            *[opened(f"{one.url}/idle", one.headers) for _ in range(idle)], return_exceptions=True
        )
        found["idle_opened_seconds"] = round(time.perf_counter() - begun, 2)
        ways = {"portal": (two.url, two.headers), "direct": (two.direct_url, {})}
        failed = [each for each in still if isinstance(each, BaseException)]
        for name, (url, headers) in ways.items():
            talking = await asyncio.gather(
                *[opened(f"{url}/busy", headers) for _ in range(busy)], return_exceptions=True
            )
            failed += [each for each in talking if isinstance(each, BaseException)]
            times: list[float] = []
            await asyncio.gather(
                *[echo(each, times) for each in talking if not isinstance(each, BaseException)]
            )
            found[name] = {"echoes": len(times), "echo_ms": spread(times)}
        for each in still:
            if not isinstance(each, BaseException):
                await each.send("still there")
                await asyncio.wait_for(each.recv(), 60)
    reasons = sorted({f"{type(each).__name__}: {each}"[:200] for each in failed})
    return {"idle": idle, "busy": busy, **found, "failed": len(failed), "reasons": reasons}


async def echo(socket: Any, times: list[float]) -> None:
    end = time.perf_counter() + ECHO_SECONDS
    while (begun := time.perf_counter()) < end:
        await socket.send("word")
        await socket.recv()
        times.append((time.perf_counter() - begun) * 1_000)
        await asyncio.sleep(ECHO_PAUSE)


def spread(times: list[float]) -> dict[str, float]:
    if len(times) < 2:
        return {}
    cut = statistics.quantiles(times, n=100)
    return {"p50": round(cut[49], 2), "p99": round(cut[98], 2)}


@contextmanager
def highest_memory(pid: int) -> Iterator[Callable[[], float]]:
    """How far the process grew above what it had at first, in MiB, looked at often."""
    first = highest = memory_mib(pid)
    over_now = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not over_now.wait(0.02):
            highest = max(highest, memory_mib(pid))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield lambda: highest - first
    finally:
        over_now.set()
        watching.join()


def memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1_024
    raise RuntimeError("no memory")


def usage(stack: Stack) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(python(stack, USAGE))
    return found


def python(stack: Stack, code: str) -> str:
    command = [sys.executable, "-c", f"import django; django.setup()\n{code}"]
    done = subprocess.run(
        command, cwd=ROOT, env=stack.env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
