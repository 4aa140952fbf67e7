"""The measuring half of `make bench-pages`: migrates and seeds its database, asks, prints."""

from __future__ import annotations

import cProfile
import itertools
import json
import os
import pstats
import secrets
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402 - after setup
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext, setup_test_environment  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

from portal.demo.scale import ClusterSize, seed_scale  # noqa: E402
from portal.inventory.models import Gpu, Node  # noqa: E402
from portal.jobs.models import Job  # noqa: E402
from portal.planning.snapshot_ahead import SnapshotAhead  # noqa: E402
from scheduler.core.model.states import JobStatus  # noqa: E402
from tests.benchmarks.arrays_timed import array_figures  # noqa: E402
from tests.benchmarks.counts_publisher import Publisher  # noqa: E402
from tests.benchmarks.latency import machine  # noqa: E402
from tests.benchmarks.pages import options  # noqa: E402
from tests.support.markup import Markup  # noqa: E402
from tests.support.pages import PAGES, REST, address  # noqa: E402
from tests.support.scale_rows import client_of, known  # noqa: E402

MOST_MS, MOST_QUERIES = 150, 20
# Pages that must be faster than the others.
FASTER_MS = {"web:jobs": 60}
ANCHOR = "(empty view)"
# What the request page asks while one types, on a large cluster each apart.
CHECK = "web:request_preview"
CHECKS = {f"{CHECK}?of={of}": f"?of={of}" for of in ("preview", "cards")}
MINUTES = itertools.count(30)
# Each is asked so often whatever it takes.
LEAST = 3


@dataclass(slots=True)
class Asked:
    """One page as somebody who is signed in, and what its answers took. `form`: it is posted."""

    name: str
    path: str
    client: Client
    form: dict[str, str] = field(default_factory=dict)
    status: int = 0
    queries: int = 0
    bytes: int = 0
    server_ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)

    def ask(self) -> Any:
        """A form says something else each time, as while one types."""
        if not self.form:
            return self.client.get(self.path)
        return self.client.post(self.path, self.form | {"time_limit": f"{next(MINUTES)}m"})

    def look(self) -> None:
        """The first answer fills what a process keeps; the second is counted."""
        self.ask()
        with CaptureQueriesContext(connection) as queries:
            answer = self.ask()
        self.status, self.queries = answer.status_code, len(queries)
        self.bytes = 0 if answer.streaming else len(answer.content)

    def take_time(self) -> None:
        began, used = time.perf_counter(), time.process_time()
        self.ask()
        self.server_ms.append((time.perf_counter() - began) * 1000)
        self.processor_ms.append((time.process_time() - used) * 1000)

    def figures(self, anchor_ms: float) -> dict[str, Any]:
        """`times_empty`: its processor time beside the empty view's."""
        most = FASTER_MS.get(self.name, MOST_MS)
        p95 = _p95(self.server_ms)
        used = statistics.median(self.processor_ms)
        return {
            "status": self.status,
            "queries": self.queries,
            "bytes": self.bytes,
            "asked": len(self.server_ms),
            "server_p50_ms": round(statistics.median(self.server_ms), 1),
            "server_p95_ms": round(p95, 1),
            "server_max_ms": round(max(self.server_ms), 1),
            "processor_p50_ms": round(used, 1),
            "processor_p95_ms": round(_p95(self.processor_ms), 1),
            "times_empty": round(used / anchor_ms, 1),
            "budget_ms": most,
            "kept": self.status == 200 and p95 < most and self.queries < MOST_QUERIES,
        }


def main() -> int:
    asked = options()
    began = {"machine": machine()}
    setup_test_environment()
    seed_s = _seeded(ClusterSize(jobs=asked.jobs, nodes=asked.nodes))
    publisher, ahead = Publisher(), SnapshotAhead()
    publisher.publish_if_due()
    snapshot_s = _read_first(ahead)
    pages = _pages({name for name in asked.pages.split(",") if name})
    for page in pages:
        page.look()
        say(f"{page.name}: {page.queries} queries, {page.bytes:,} bytes")
    for turn in range(asked.runs):
        for page in pages:
            publisher.publish_if_due()
            # A web process does it beside its answers.
            ahead.renew_snapshot()
            if turn < LEAST or sum(page.server_ms) < asked.seconds * 1000:
                page.take_time()
        say(f"asked {turn + 1} of {asked.runs} times")
    anchor = statistics.median(next(p for p in pages if p.name == ANCHOR).processor_ms)
    found = {page.name: page.figures(anchor) for page in pages}
    result = {
        "size": {"jobs": Job.objects.count(), "nodes": Node.objects.count()}
        | {"gpus": Gpu.objects.count()},
        "seed_s": seed_s,
        "snapshot_s": snapshot_s,
        **began,
        "counts": publisher.result(),
        "pages": found,
        "over": sorted(name for name, told in found.items() if not told["kept"]),
    }
    if asked.arrays:
        like = Job.objects.filter(owner__username="alice", array=None, replica_count=1)
        running = like.filter(status=JobStatus.RUNNING).latest("pk")
        result["array"] = array_figures(client_of("alice"), running, asked.arrays)
    if asked.profile:
        result["profiles"] = {page.name: _costliest(page, asked.profile) for page in pages}
    print(json.dumps(result, indent=1))
    return 0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _seeded(size: ClusterSize) -> float | None:
    """Seconds it took to migrate and seed; None where the database was kept from another run."""
    began = time.monotonic()
    call_command("migrate", verbosity=0)
    if Node.objects.exists():
        return None
    now = timezone.now().replace(microsecond=0)
    seed_scale(size, seed=1, now=now, report=say, password=secrets.token_urlsafe(12))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return round(time.monotonic() - began, 1)


def _read_first(ahead: SnapshotAhead) -> float:
    """Seconds that a web process reads after its start, until the planner can answer."""
    began = time.monotonic()
    ahead.renew_snapshot()
    return round(time.monotonic() - began, 1)


def _pages(only: set[str]) -> list[Asked]:
    """The empty view, and those of these names, or all."""
    words = known()
    asked = {ANCHOR: ("", "/healthz")}
    asked |= {name: (page.as_user, address(name, words)) for name, page in PAGES.items()}
    asked |= {path: ("alice", path.format(**words)) for path in REST}
    asked |= {name: ("alice", reverse(CHECK) + of) for name, of in CHECKS.items()}
    if unknown := only - set(asked):
        raise SystemExit(
            f"no page is called {', '.join(sorted(unknown))}; see tests/support/pages.py"
        )
    chosen = {name: who for name, who in asked.items() if not only or name in only | {ANCHOR}}
    clients = {who: client_of(who) for who, _ in chosen.values()}
    return [Asked(name, path, clients[who], _form(name)) for name, (who, path) in chosen.items()]


def _form(name: str) -> dict[str, str]:
    """What the request page would ask its answer with; of a page, nothing."""
    if name not in CHECKS:
        return {}
    page = client_of("alice").get(reverse("web:request")).content.decode()
    return next(form.fields for form in Markup(page).forms if "image" in form.fields)


def _costliest(page: Asked, count: int) -> list[str]:
    """The functions that took most of one answer, their own time first."""
    profile = cProfile.Profile()
    profile.runcall(page.ask)
    stats: Any = pstats.Stats(profile)
    lines = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:count]
    return [
        f"{own * 1000:.1f} ms own, {whole * 1000:.1f} ms, {calls} calls: "
        f"{os.path.relpath(file)}:{line} {name}"
        for (file, line, name), (_, calls, own, whole, _) in lines
    ]


def _p95(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=20, method="inclusive")[-1]


if __name__ == "__main__":
    sys.exit(main())
