"""The measuring half of `make bench-pages`: seeds the database of its environment, asks, prints."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402 - after setup
from django.test.utils import CaptureQueriesContext, setup_test_environment  # noqa: E402
from django.utils import timezone  # noqa: E402

from portal.demo.scale import Size  # noqa: E402
from tests.benchmarks.latency import machine  # noqa: E402
from tests.pages import PAGES, REST, address  # noqa: E402
from tests.scale_rows import client_of, known, seeded  # noqa: E402

MOST_MS, MOST_QUERIES = 150, 20
# What takes longer than this is asked a few times only.
SLOW_SECONDS, SLOW_RUNS = 3, 3
ANCHOR = "(empty view)"
Asked = dict[str, tuple[str, str]]


def main() -> int:
    setup_test_environment()
    size = Size(
        jobs=int(os.environ.get("PAGES_JOBS", "10000")),
        nodes=int(os.environ.get("PAGES_NODES", "1000")),
    )
    began = time.monotonic()
    seeded(size, now=timezone.now())
    seed_s = round(time.monotonic() - began, 1)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    words = known()
    asked: Asked = {name: (page.as_user, address(name, words)) for name, page in PAGES.items()}
    asked |= {path: ("alice", path.format(**words)) for path in REST}
    asked[ANCHOR] = ("", "/healthz")
    found = _timed(asked, int(os.environ.get("PAGES_RUNS", "20")))
    over = [n for n, f in found.items() if f["p95_ms"] > MOST_MS or f["queries"] >= MOST_QUERIES]
    result = {
        "size": {"jobs": size.jobs, "nodes": size.nodes, "gpus": size.nodes * 8},
        "seed_s": seed_s,
        "machine": machine(),
        "pages": found,
        "over": sorted(over),
    }
    print(json.dumps(result, indent=1))
    return 0


def _timed(asked: Asked, runs: int) -> dict[str, dict[str, Any]]:
    clients = {who: client_of(who) for who, _ in asked.values()}
    found: dict[str, dict[str, Any]] = {}
    slow: set[str] = set()
    for name, (who, path) in asked.items():
        began = time.perf_counter()
        clients[who].get(path)
        if time.perf_counter() - began > SLOW_SECONDS:
            slow.add(name)
        with CaptureQueriesContext(connection) as queries:
            answer = clients[who].get(path)
        size = 0 if answer.streaming else len(answer.content)
        found[name] = {"status": answer.status_code, "queries": len(queries), "bytes": size}
    times: dict[str, list[float]] = {name: [] for name in asked}
    python: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(runs):
        for name, (who, path) in asked.items():
            if name in slow and turn >= SLOW_RUNS:
                continue
            began, used = time.perf_counter(), time.process_time()
            clients[who].get(path)
            times[name].append((time.perf_counter() - began) * 1000)
            python[name].append((time.process_time() - used) * 1000)
    for name, taken in times.items():
        found[name] |= {
            "p50_ms": round(statistics.median(taken), 1),
            "p95_ms": round(statistics.quantiles(taken, n=20, method="inclusive")[-1], 1),
            "python_p50_ms": round(statistics.median(python[name]), 1),
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
