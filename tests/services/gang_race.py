"""The two nodes of a gang report its two ranks at the same moment, again and again, while passes
plan and release: run as a program against PostgreSQL.

    python -m tests.services.gang_race GANGS

Several pairs of nodes have a gang each and report it, one pair after the other, in threads that
keep their connections: nothing but reports and passes takes time. Prints how gangs ended, how many
passes began beside reports, what was raised, and what was wrong in the rows afterwards.
"""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.audit.models import Event  # noqa: E402 - after setup
from portal.desired.services import nodes_drive  # noqa: E402
from portal.inventory.models import Node, SlotClaim  # noqa: E402
from portal.jobs.models import Attempt, Job, Replica  # noqa: E402
from portal.live import bell  # noqa: E402
from portal.quotas.models import Quota  # noqa: E402
from scheduler.core.model.states import AllocationStatus  # noqa: E402
from scheduler.jit_warmup import before_fork  # noqa: E402
from scheduler.tasks import plan_once  # noqa: E402
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user  # noqa: E402

# Exit codes of the two ranks, and how their job ends.
ENDS = (((0, 0), "succeeded"), ((0, 1), "failed"), ((1, 1), "failed"))
PAIRS = 10
# How many pairs report while a pass lasts, about.
REPORTS_PER_PASS = 3
# Of a thread that waits for the other one. Far above what a loaded machine takes.
MEETING_SECONDS = 300
Pair = tuple[HonestNode, HonestNode]


class Races:
    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.passes = 0
        self.alice = a_user("alice")
        self.vision = a_project("vision", self.alice, gpus=2 * PAIRS)
        self.pairs = [_pair(number) for number in range(PAIRS)]
        self._threads = ThreadPoolExecutor(3)

    def round(self, ends: Sequence[tuple[tuple[int, int], str]]) -> None:
        """Lives of as many gangs; each of their steps is reported by both nodes at once."""
        last = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        jobs = [self._submit(number) for number in range(len(ends))]
        pairs = self.pairs[: len(ends)]
        plan_once()
        self._drive()
        for _ in ("ready", "running"):
            self._at_once([(one.obey, other.obey) for one, other in pairs])
            self._drive()
        self._at_once(
            [
                tuple(_ending(node, code) for node, code in zip(pair, codes, strict=True))
                for pair, (codes, _) in zip(pairs, ends, strict=True)
            ]
        )
        self._drive()
        self._at_once([(one.obey, other.obey) for one, other in pairs])
        plan_once()
        self._check(jobs, [expected for _, expected in ends], last)

    def _submit(self, number: int) -> int:
        needs = {"needs": [f"pair={number}"], "topology": "any", "replicas": 2}
        retries = {"infrastructure": 0}
        return a_job(self.alice, self.vision, device={"gpus": 1}, retries=retries, **needs).pk

    def _drive(self) -> None:
        nodes_drive(node_ids=[node.row.pk for pair in self.pairs for node in pair])

    def _at_once(self, reports: Sequence[tuple[Callable[[], object], ...]]) -> None:
        """Pair by pair, each report of it in a thread of its own; passes begin beside them."""
        two, three = threading.Barrier(2), threading.Barrier(3)

        def report(side: int) -> None:
            for number, pair in enumerate(reports):
                meeting = two if number % REPORTS_PER_PASS else three
                meeting.wait(MEETING_SECONDS)
                self._noted(pair[side])

        def plan() -> None:
            for _ in range(0, len(reports), REPORTS_PER_PASS):
                three.wait(MEETING_SECONDS)
                self._noted(plan_once)
                self.passes += 1

        works = [partial(report, 0), partial(report, 1), plan]
        for running in [self._threads.submit(work) for work in works]:
            running.result()

    def _noted(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self.errors[f"{type(error).__name__}: {error}"[:200]] += 1

    def _check(self, jobs: Sequence[int], expected: Sequence[str], last: int) -> None:
        statuses = dict(Job.objects.filter(pk__in=jobs).values_list("pk", "status"))
        self.ended.update(statuses.values())
        self.wrong["status"] += sum(
            statuses[job] != end for job, end in zip(jobs, expected, strict=True)
        )
        self.wrong["attempts"] += abs(Attempt.objects.filter(job__in=jobs).count() - len(jobs))
        live = Replica.objects.filter(attempt__job__in=jobs)
        live = live.exclude(allocations__status=AllocationStatus.RELEASED)
        self.wrong["not released"] += live.count()
        self.wrong["quota"] += Quota.objects.exclude(used_units=0).count()
        self.wrong["claims"] += SlotClaim.objects.count()
        moves: dict[tuple[str, str], str] = {}
        rows = Event.objects.filter(pk__gt=last).exclude(new="").order_by("pk")
        for noun, noun_id, old, new in rows.values_list("noun", "noun_id", "old", "new"):
            self.wrong["events"] += moves.get((noun, noun_id), old) != old
            moves[noun, noun_id] = new


def _pair(number: int) -> Pair:
    pair = a_node(f"a{number}"), a_node(f"b{number}")
    Node.objects.filter(pk__in=[node.row.pk for node in pair]).update(labels=[f"pair={number}"])
    return pair


def _ending(node: HonestNode, code: int) -> Callable[[], object]:
    return lambda: node.finish(exit_code=code)


def main(gangs: int) -> None:
    # No tasks run here: passes and drives are called.
    bell._send = lambda *_: True
    before_fork()
    races = Races()
    for first in range(0, gangs, PAIRS):
        races.round(
            [ENDS[number % len(ENDS)] for number in range(first, min(first + PAIRS, gangs))]
        )
    wrong = {name: number for name, number in races.wrong.items() if number}
    counted = {"ended": races.ended, "errors": races.errors, "wrong": wrong}
    print(json.dumps(counted | {"passes": races.passes}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
