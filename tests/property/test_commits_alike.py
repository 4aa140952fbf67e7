"""Placements that are committed together leave the rows and events that they leave one by one.

Histories of a small cluster at random: jobs of all kinds come, are placed, run, end and are given
up; the world changes between a plan and its commit, and plans collide. Each plan is committed in
both ways from the same rows.
"""

from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from unittest import mock

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portal.allocations.models import Allocation
from portal.allocations.services import allocations_release
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.errors import Refused
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.jobs.models import Attempt, Job, Replica, StartEstimate
from portal.jobs.services import job_cancel
from portal.planning.planner_input import planner_input
from portal.quotas.models import Quota
from scheduler.commit import placements as placements_module
from scheduler.commit import plan as commit_module
from scheduler.commit.plan import commit
from scheduler.core.model.decisions import Plan
from scheduler.core.model.policy import Policy
from scheduler.core.placement.legality import reserve_if_legal
from scheduler.core.plan import plan as decide
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
DEVICES = (
    *({"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"mig": "1g.18gb"}, {"mig": "2g.35gb"}),
    *({"mps": {"threads": 25, "memory": "8GiB"}}, {"mps": {"threads": 50, "memory": "20GiB"}}),
)
STEPS = 5


@contextmanager
def undone():
    """What is written here is no more afterwards. Numbers are given again."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def rows_now() -> dict[str, list[object]]:
    """All rows that a commit writes, without random ids and times."""
    gpus, slices = "slice__gpu__uuid", ("slice__start", "slice__profile", "slice__threads")
    replica = ("replica__attempt", "replica__rank")
    found = {
        "jobs": Job.objects.values_list(
            *("pk", "status", "reason", "position", "reserved_at", "bypassed", "estimate")
        ),
        "attempts": Attempt.objects.values_list("pk", "job", "number", "site", "ended_at"),
        "replicas": Replica.objects.values_list(
            "attempt", "rank", "node", "desired_state", "status"
        ),
        "allocations": Allocation.objects.values_list(
            *(*replica, gpus, *slices, "project", "user", "units", "cpu_milli", "memory_mib"),
            "status",
        ),
        "slices": Slice.objects.values_list(
            *("gpu__uuid", "kind", "profile", "start", "size", "memory_mib", "units"),
            *("threads", "clients", "status"),
        ),
        "claims": SlotClaim.objects.values_list("gpu__uuid", "slot", "slice__start"),
        "gpus": Gpu.objects.values_list(
            "uuid", "desired_mode", "sharing_project", "shared_threads", "shared_memory_mib"
        ),
        "quotas": Quota.objects.values_list("pk", "used_units", "guard_units"),
    }
    kept: dict[str, list[object]] = {name: sorted(map(repr, rows)) for name, rows in found.items()}
    kept["settling"] = sorted(Gpu.objects.filter(settles_at=None).values_list("uuid", flat=True))
    kept["started"] = list(StartEstimate.objects.filter(started_at=None).values_list("job"))
    return kept


def events_since(number: int) -> list[object]:
    """In the order in which they were written."""
    columns = ("noun", "old", "new", "code", "sentence", "actor", "data", "job", "project", "node")
    rows = Event.objects.filter(pk__gt=number).order_by("pk").values_list(*columns, "noun_id")
    # Jobs alone have numbers that are not random.
    return [(*row, noun_id if row[0] == "job" else "") for *row, noun_id in rows]


def committed(plan: Plan, batch_size: int):
    """What this commit leaves, and says."""
    before = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    with mock.patch.object(commit_module, "BATCH_SIZE", batch_size):
        result = commit(plan)
    return rows_now() | {"events": events_since(before)}, result


class History:
    """One cluster, its projects and its jobs, from step to step."""

    def __init__(self, random: Random) -> None:
        self.random = random
        sizes = [random.choice([1, 2, 3]) for _ in range(random.choice([1, 2, 3]))]
        self.nodes = [a_node(f"n{number}", gpus=size) for number, size in enumerate(sizes)]
        self.homes = []
        for slug in ("one", "two"):
            users = [a_user(f"{slug}-{number}") for number in range(2)]
            project = a_project(slug, *users, gpus=random.choice([1, 2, 8]))
            limits = {"borrow_units": random.choice([0, 56_000]), "lend_units": 56_000}
            quota = Quota.objects.get(project=project)
            Quota.objects.filter(pk=quota.pk).update(
                **limits, guard_units=quota.limit_units + limits["borrow_units"]
            )
            if random.random() < 0.5:
                Quota.objects.create(
                    project=project, user=users[0], limit_units=84_000, guard_units=84_000
                )
            self.homes += [(user, project) for user in users]

    def jobs_come(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            user, project = self.random.choice(self.homes)
            gang = {"replicas": self.random.choice([1, 1, 1, 2]), "topology": "any"}
            device, priority = self.random.choice(DEVICES), self.random.choice(["low", "normal"])
            # What its owner may never have is refused at once.
            with suppress(Refused):
                a_job(user, project, device=device, priority=priority, **gang)

    def nodes_go_on(self) -> None:
        for node in self.nodes:
            node_drive(node_id=node.row.pk)
            if node.row.desired or Node.objects.get(pk=node.row.pk).desired:
                node.obey()
            if self.random.random() < 0.3:
                node.finish(exit_code=self.random.choice([0, 1]))
        if self.random.random() < 0.7:
            allocations_release()

    def plan(self) -> Plan:
        """As the planner decides; then some of its placements collide."""
        found = decide(planner_input(now=timezone.now(), policy=Policy()), Policy())
        places = list(found.placements)
        if len(places) > 1 and self.random.random() < 0.3:
            one, other = self.random.sample(range(len(places)), 2)
            places[one] = replace(places[one], replicas=places[other].replicas)
        if places and self.random.random() < 0.2:
            places.append(replace(self.random.choice(places)))
        return replace(found, placements=tuple(places), bypassed=tuple(self.waiting()[:2]))

    def waiting(self) -> list[str]:
        return [str(pk) for pk in Job.objects.queued().order_by("pk").values_list("pk", flat=True)]

    def world_changes(self) -> None:
        """Between a plan and its commit."""
        queued, gpus = Job.objects.queued(), Gpu.objects.order_by("uuid")
        one = queued.order_by("pk").first()
        match self.random.choice(["nothing"] * 4 + ["cancel", "hold", "cordon", "fault", "quota"]):
            case "cancel" if one:
                job_cancel(job=one, actor="olga")
            case "hold" if one:
                queued.filter(pk=one.pk).update(hold_owner="olga")
            case "cordon":
                self.nodes[0].row.refresh_from_db()
                is_open = self.nodes[0].row.schedulable
                Node.objects.filter(pk=self.nodes[0].row.pk).update(schedulable=not is_open)
            case "fault":
                gpus.filter(pk=gpus[0].pk).update(busy=self.random.choice(["", "python"]))
            case "quota":
                Quota.objects.filter(used_units=0).update(limit_units=0, guard_units=0)


def assert_alike(plan: Plan) -> None:
    """Unless both ways leave and say the same, this fails."""
    with undone():
        one_by_one, results = committed(plan, 1)
    with undone():
        together, result = committed(plan, 64)
    for kind, rows in one_by_one.items():
        assert together[kind] == rows, kind
    assert result == results


def check_plan(plan: Plan) -> bool:
    """Whether the committer refused some of its placements."""
    reasons: list[object] = []

    def watched(*arguments):
        reasons.append(reserve_if_legal(*arguments))
        return reasons[-1]

    with mock.patch.object(placements_module, "reserve_if_legal", watched):
        assert_alike(plan)
    if not any(reasons):
        return False
    # And where nothing but the database refuses.
    with mock.patch.object(placements_module, "reserve_if_legal", lambda *_: None):
        assert_alike(plan)
    return True


def check_history(random: Random) -> tuple[int, int]:
    """The most placements that one plan of a history had, and how many plans had refused ones."""
    history, most, refused = History(random), 0, 0
    for _ in range(STEPS):
        history.jobs_come()
        plan = history.plan()
        history.world_changes()
        # One placement is one transaction in both ways.
        if len(plan.placements) > 1:
            refused += check_plan(plan)
        most = max(most, commit(plan).placed)
        history.nodes_go_on()
    return most, refused


def check(examples: int) -> None:
    counts = []

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        # A seed has no smaller one.
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(seed=st.integers(0, 2**32))
    def in_each_history(seed):
        with undone():
            counts.append(check_history(Random(seed)))

    in_each_history()
    assert max(most for most, _ in counts) > 1, "some plans have several placements"
    assert any(refused for _, refused in counts), "of some, the committer refuses one"


def test_placements_together_leave_what_they_leave_one_by_one():
    check(examples=3)


@pytest.mark.slow
@pytest.mark.soak
def test_in_many_histories():
    check(examples=60)
