"""What an array of 1,000 members costs the web process: submitted, shown, cancelled and retried."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.arrays.models import JobArray
from portal.arrays.selectors import member_counts
from portal.celery import app as celery
from portal.jobs.models import Job

SIZE = 1_000
JOBS = "/api/v1/jobs"


@dataclass(slots=True)
class Step:
    """One thing that people do with an array."""

    statements: int = 0
    server_ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)

    def take(self, act: Callable[[], Any]) -> Any:
        with CaptureQueriesContext(connection) as queries:
            began, used = time.perf_counter(), time.process_time()
            answer = act()
            self.server_ms.append((time.perf_counter() - began) * 1000)
            self.processor_ms.append((time.process_time() - used) * 1000)
        self.statements = len(queries)
        if answer.status_code >= 400:
            raise SystemExit(f"{answer.status_code}: {answer.content[:500]!r}")
        return answer

    def figures(self) -> dict[str, Any]:
        return {
            "statements": self.statements,
            "server_p50_ms": round(statistics.median(self.server_ms), 1),
            "server_max_ms": round(max(self.server_ms), 1),
            "processor_p50_ms": round(statistics.median(self.processor_ms), 1),
        }


def array_figures(client: Client, like: Job, rounds: int) -> dict[str, Any]:
    """Each round submits another array. `like`: whose request all members have."""
    # A pass is the worker's: here, a ring for one goes nowhere.
    celery.conf.update(task_always_eager=False, broker_url="memory://")
    steps: dict[str, Step] = {}
    request = like.request | {"array": f"0-{SIZE - 1}%10", "name": "measured"}
    for _ in range(rounds):

        def step(name: str, act: Callable[[], Any]) -> Any:
            return steps.setdefault(name, Step()).take(act)

        step("submit", lambda: client.post(JOBS, request, "application/json"))
        array = JobArray.objects.latest("pk")
        page = reverse("web:array", args=[array.label])
        step("page", partial(client.get, page))
        step("job_list", lambda: client.get(reverse("web:jobs") + "?project="))
        step("home", lambda: client.get(reverse("web:home")))
        step("cancel", partial(client.post, f"{page}cancel"))
        step("retry", partial(client.post, f"{page}retry"))
        counts = member_counts([array.pk])[array.pk]
        if (counts.waiting, counts.total) != (SIZE, SIZE):
            raise SystemExit(f"{counts} of {SIZE} members: {array.label} is not what was measured")
        step("cancel", partial(client.post, f"{page}cancel"))
    return {"members": SIZE, "rounds": rounds} | {k: v.figures() for k, v in steps.items()}
