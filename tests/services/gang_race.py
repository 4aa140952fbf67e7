"""Two nodes report the two ranks of one gang at the same moment, again and again, while a pass
plans and releases: run as a program against PostgreSQL.

Prints how gangs ended, what was raised, and what was wrong in the rows afterwards.
"""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db import connection  # noqa: E402

from portal.accounts.models import Project, User  # noqa: E402
from portal.audit.models import Event  # noqa: E402
from portal.desired.services import nodes_drive  # noqa: E402
from portal.inventory.models import SlotClaim  # noqa: E402
from portal.jobs.models import Job  # noqa: E402
from portal.live import bell  # noqa: E402
from portal.quotas.models import Quota  # noqa: E402
from scheduler.core.model.states import AllocationStatus  # noqa: E402
from scheduler.tasks import plan_once  # noqa: E402
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user  # noqa: E402

# Exit codes of the two ranks, and how their job ends.
ENDS = (((0, 0), "succeeded"), ((0, 1), "failed"), ((1, 1), "failed"))


class Rounds:
    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.alice: User = a_user("alice")
        self.vision: Project = a_project("vision", self.alice)
        self.nodes = [a_node("n1"), a_node("n2")]

    def round(self, codes: tuple[int, int], expected: str) -> None:
        """A gang's life; each of its steps is reported by both nodes at once."""
        last = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        retries = {"infrastructure": 0}
        device = {"gpus": 1}
        job = a_job(
            self.alice, self.vision, replicas=2, device=device, topology="any", retries=retries
        )
        plan_once()
        for _ in ("ready", "running"):
            self._at_once(*(node.obey for node in self.nodes))
            nodes_drive(node_ids=[node.row.pk for node in self.nodes])
        ends = zip(self.nodes, codes, strict=True)
        self._at_once(*(_ending(node, code) for node, code in ends))
        nodes_drive(node_ids=[node.row.pk for node in self.nodes])
        self._at_once(*(node.obey for node in self.nodes))
        plan_once()
        job.refresh_from_db()
        self.ended[job.status] += 1
        self.wrong["status"] += job.status != expected
        self._check(job, last)

    def _at_once(self, *works: Callable[[], object]) -> None:
        start = threading.Barrier(len(works) + 1)

        def run(work: Callable[[], object]) -> None:
            start.wait()
            try:
                work()
            except Exception as error:
                self.errors[f"{type(error).__name__}: {error}"[:200]] += 1
            finally:
                connection.close()

        threads = [threading.Thread(target=run, args=(work,)) for work in (*works, plan_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _check(self, job: Job, last: int) -> None:
        attempt = job.attempts.get()
        live = attempt.replicas.exclude(allocations__status=AllocationStatus.RELEASED)
        self.wrong["not released"] += live.count()
        self.wrong["quota"] += Quota.objects.exclude(used_units=0).count()
        self.wrong["claims"] += SlotClaim.objects.count()
        moves: dict[tuple[str, str], str] = {}
        rows = Event.objects.filter(pk__gt=last).exclude(new="").order_by("pk")
        for noun, noun_id, old, new in rows.values_list("noun", "noun_id", "old", "new"):
            self.wrong["events"] += moves.get((noun, noun_id), old) != old
            moves[noun, noun_id] = new


def _ending(node: HonestNode, code: int) -> Callable[[], object]:
    return lambda: node.finish(exit_code=code)


def main(count: int) -> None:
    # No tasks run here: passes and drives are called.
    bell._send = lambda *_: True
    rounds = Rounds()
    for number in range(count):
        rounds.round(*ENDS[number % len(ENDS)])
    wrong = {name: number for name, number in rounds.wrong.items() if number}
    print(json.dumps({"ended": rounds.ended, "errors": rounds.errors, "wrong": wrong}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
