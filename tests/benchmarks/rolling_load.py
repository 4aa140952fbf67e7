"""What callers see of a portal while its web hosts are restarted: run as a program on one machine.

    python -m tests.benchmarks.rolling_load URL CA TOKEN REQUESTS CALLERS STREAMS

It prints `begun` after the first answer, and at the end one line of JSON: what failed, how long
each kind of request took, and how long each event stream was away when it ended. A stream comes
back as a browser's does: after the pause that the portal set, with the id of its last event.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT = httpx.Timeout(120)
# Of REST's stream, unless the portal sets another one (`retry:`): what browsers use.
PAUSE_SECONDS = 1.0
BODY = {
    "project": "vision",
    "name": "rolling",
    "image": "tessera-example:latest",
    "command": ["true"],
    "device": {"mig": "1g.18gb"},
}
# Of 20 requests; a quarter change something, which no proxy may send twice.
KINDS = ("health",) * 10 + ("page",) * 2 + ("jobs",) * 3 + ("dry_run",) * 4 + ("submit",)


@dataclass
class LoadResult:
    statuses: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: list[str] = field(default_factory=list)
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    submitted: set[str] = field(default_factory=set)
    away_seconds: list[float] = field(default_factory=list)
    refused_streams: Counter[str] = field(default_factory=Counter)
    """Answers to a reconnecting stream that are no stream; it stays away."""
    broken_streams: Counter[str] = field(default_factory=Counter)


async def main(url: str, ca: str, token: str, requests: int, callers: int, streams: int) -> None:
    result, numbers = LoadResult(), iter(range(requests))
    headers = {"Authorization": f"Token {token}"}
    context = ssl.create_default_context(cafile=ca)
    limits = httpx.Limits(max_connections=None)
    options: dict[str, Any] = {"verify": context, "trust_env": False, "timeout": TIMEOUT}
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, **options) as http:
        listening = [asyncio.create_task(_listen(http, result)) for _ in range(streams)]
        calling = [asyncio.create_task(_call_each(http, numbers, result)) for _ in range(callers)]
        await asyncio.gather(*calling)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    print(json.dumps(_summary(result)), flush=True)


async def _call_each(http: httpx.AsyncClient, numbers: Any, result: LoadResult) -> None:
    for number in numbers:
        kind = KINDS[number % len(KINDS)]
        begun = time.monotonic()
        try:
            answer = await _call(http, kind)
        except httpx.HTTPError as error:
            result.failed.append(f"{kind}: {type(error).__name__} {error}")
            continue
        result.milliseconds[kind].append((time.monotonic() - begun) * 1000)
        result.statuses[kind][str(answer.status_code)] += 1
        if not answer.is_success:
            result.failed.append(f"{kind}: {answer.status_code} {answer.text[:200]}")
        elif kind == "submit":
            result.submitted.add(str(answer.json()["id"]))
        if number == 0:
            print("begun", flush=True)


async def _call(http: httpx.AsyncClient, kind: str) -> httpx.Response:
    match kind:
        case "health":
            return await http.get("/healthz")
        case "page":
            return await http.get("/sign-in/", headers={"Authorization": ""})
        case "jobs":
            return await http.get("/api/v1/jobs", params={"limit": 5})
        case "dry_run":
            return await http.post("/api/v1/jobs", params={"dry_run": "true"}, json=BODY)
        case _:
            return await http.post("/api/v1/jobs", json=BODY)


async def _listen(http: httpx.AsyncClient, result: LoadResult) -> None:
    """One stream, taken up again for ever."""
    last, pause, lost_at = "", PAUSE_SECONDS, 0.0
    while True:
        resume = {"Last-Event-ID": last} if last else {}
        try:
            async with http.stream("GET", "/api/v1/events/stream", headers=resume) as answer:
                answer.raise_for_status()
                async for line in answer.aiter_lines():
                    if lost_at:
                        result.away_seconds.append(time.monotonic() - lost_at)
                        lost_at = 0.0
                    name, _, value = line.partition(": ")
                    if name == "id":
                        last = value
                    elif name == "retry":
                        pause = int(value) / 1000
        except httpx.HTTPStatusError as error:
            result.refused_streams[str(error.response.status_code)] += 1
        except httpx.HTTPError as error:
            # A stream that broke off comes back as well; only how long it is away counts.
            result.broken_streams[type(error).__name__] += 1
        lost_at = lost_at or time.monotonic()
        await asyncio.sleep(pause)


def _summary(result: LoadResult) -> dict[str, Any]:
    return {
        "requests": sum(map(len, result.milliseconds.values())) + len(result.failed),
        "failed": len(result.failed),
        "failures": Counter(result.failed).most_common(10),
        "statuses": result.statuses,
        "ms": {
            kind: {"p50": _rank(times, 0.5), "p99": _rank(times, 0.99), "most": _rank(times, 1)}
            for kind, times in result.milliseconds.items()
        },
        "submitted": len(result.submitted),
        "streams_ended": len(result.away_seconds),
        "streams_refused": result.refused_streams,
        "streams_broken": result.broken_streams,
        "stream_away_s": {
            "p50": _rank(result.away_seconds, 0.5),
            "most": _rank(result.away_seconds, 1),
        },
    }


def _rank(values: list[float], share: float) -> float | None:
    ranked = sorted(values)
    return round(ranked[min(len(ranked) - 1, int(len(ranked) * share))], 2) if ranked else None


if __name__ == "__main__":
    address, authority, alice, *counts = sys.argv[1:]
    asyncio.run(main(address, authority, alice, *map(int, counts)))
