"""People who submit jobs over REST: run as a program, so that their work is in no other figure.

Reads one line of settings: `{"url", "token", "body", "jobs", "clients"}` submits so many jobs, each
client one after another; with `"rate"` they come at so many a second, whether or not the portal
keeps up; with `"bulk"` so many come in each call, at most `MAX_BULK`. Prints one line: `first_at`
and `last_at` (Unix time), `ms` of each call, and `failures` by status.
"""

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.control_plane.wire import HttpClient, Unreachable

PATH = "/api/v1/jobs"
BULK_PATH = "/api/v1/jobs/bulk"
# The most jobs of one such call.
MAX_BULK = 1_000


@dataclass
class Submits:
    client: HttpClient
    token: str
    body: dict[str, Any]
    sent_at: list[float] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    # Of the first refusal.
    sentence: str = ""
    _numbers: Any = field(default_factory=itertools.count)

    async def one(self) -> None:
        await self._send(PATH, self._body())

    async def many(self, count: int) -> None:
        """In one call."""
        await self._send(BULK_PATH, {"jobs": [self._body() for _ in range(count)]})

    def _body(self) -> dict[str, Any]:
        return self.body | {"name": f"bench-{next(self._numbers)}"}

    async def _send(self, path: str, value: Any) -> None:
        self.sent_at.append(time.time())
        begun = time.perf_counter()
        try:
            headers = {"Authorization": f"Token {self.token}"}
            answer = await self.client.post(path, value, headers)
        except Unreachable:
            self.failures["unreachable"] += 1
            return
        self.ms.append((time.perf_counter() - begun) * 1_000)
        if not answer.is_success:
            self.failures[str(answer.status)] += 1
            self.sentence = self.sentence or answer.body[:300].decode(errors="replace")


async def main(settings: dict[str, Any]) -> dict[str, Any]:
    submits = Submits(HttpClient(settings["url"]), settings["token"], settings["body"])
    if settings.get("rate"):
        await _at_rate(submits, settings["jobs"], settings["rate"])
    elif settings.get("bulk"):
        bulk = min(settings["bulk"], MAX_BULK)
        for first in range(0, settings["jobs"], bulk):
            await submits.many(min(bulk, settings["jobs"] - first))
    else:
        await _by_clients(submits, settings["jobs"], settings["clients"])
    await submits.client.close()
    return {
        "first_at": min(submits.sent_at),
        "last_at": time.time(),
        "ms": submits.ms,
        "failures": dict(submits.failures),
        "sentence": submits.sentence,
    }


async def _by_clients(submits: Submits, jobs: int, clients: int) -> None:
    left = iter(range(jobs))

    async def client() -> None:
        for _ in left:
            await submits.one()

    await asyncio.gather(*(client() for _ in range(clients)))


async def _at_rate(submits: Submits, jobs: int, rate: float) -> None:
    begun = time.monotonic()
    calls = []
    for number in range(jobs):
        await asyncio.sleep(begun + number / rate - time.monotonic())
        calls.append(asyncio.create_task(submits.one()))
    await asyncio.gather(*calls)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.stdin.readline())))), flush=True)
