"""What a process keeps of the nodes is always what it would read: whoever changes whatever."""

import re
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import Project, User
from portal.allocations.models import Allocation
from portal.allocations.services import allocations_release
from portal.inventory.models import Gpu, Node, Slice
from portal.inventory.node_settings import node_labels_set, node_taints_set
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.services import job_cancel
from portal.planning import changes
from portal.planning.changes import changes_purge, everything_changed, make_triggers, watched_tables
from portal.planning.models import NodeChange
from portal.planning.node_cache import NodeCache
from portal.planning.node_views import node_records
from scheduler.tasks import plan_once
from tests.support.inventory_changes import COUNTED, UNCOUNTED
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

STEPS, SEEDS = 14, 6


def of(nodes: NodeCache):
    return nodes.views, sorted(nodes.live, key=lambda row: row.id)


def read_anew():
    fresh = NodeCache()
    fresh.refresh()
    return of(fresh)


def refreshed(nodes: NodeCache):
    nodes.refresh()
    return of(nodes)


class History:
    """Random steps of everybody who writes what the planner reads of nodes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.alice = a_user("alice")
        self.vision = a_project("vision", self.alice, gpus=20)
        self.nodes = [a_node(f"n{number}", gpus=2) for number in range(3)]

    def step(self) -> None:
        steps = [
            *(self.submit, self.submit, self.plan, self.reports, self.reports, self.release),
            *(self.cancel, self.finish, self.fault, self.block, self.cordon, self.settings),
            *(self.rolled_back, self.by_hand, self.restored),
        ]
        self.random.choice(steps)()

    def node(self):
        return self.random.choice(self.nodes)

    def submit(self) -> None:
        devices = [{"mig": "1g.18gb"}, {"mig": "3g.71gb"}, {"gpus": 1}, {"gpus": 2}]
        devices += [{"mps": {"threads": 25, "memory": "8GiB"}}]
        device, replicas = self.random.choice(devices), self.random.choice([1, 1, 2])
        a_job(self.alice, self.vision, device=device, replicas=replicas)

    def plan(self) -> None:
        plan_once()

    def reports(self) -> None:
        settle(*self.nodes, rounds=self.random.choice([1, 3]))

    def release(self) -> None:
        allocations_release()

    def cancel(self) -> None:
        for job in Job.objects.allocated().order_by("pk")[:1]:
            job_cancel(job=job, actor="alice")

    def finish(self) -> None:
        self.node().finish()

    def fault(self) -> None:
        node = self.node()
        node.faults = {} if node.faults else {0: "XID 79"}
        node.busy = {} if node.busy else {1: "python of somebody"}
        node.report()

    def block(self) -> None:
        node = self.node()
        node.blocks = () if node.blocks else ("no driver",)
        node.report()

    def cordon(self) -> None:
        rows = Node.objects.filter(pk=self.node().row.pk)
        rows.update(schedulable=self.random.choice([True, False]), cordon_reason="fans")

    def settings(self) -> None:
        node_labels_set(node=self.node().row, labels=["nvme"], actor="admin")
        node_taints_set(node=self.node().row, taints=[], reason="", actor="admin")

    def rolled_back(self) -> None:
        with transaction.atomic():
            Gpu.objects.update(health="faulted")
            transaction.set_rollback(True)

    def by_hand(self) -> None:
        kinds = [Gpu.objects.filter(index=1), Slice.objects.all(), Allocation.objects.all()]
        rows, values = self.random.choice(
            [(kinds[0], {"pinned": True}), (kinds[1], {"busy": "x"}), (kinds[2], {"cpu_milli": 7})]
        )
        rows.update(**values)

    def restored(self) -> None:
        moment = self.random.choice([None, None, timezone.now()])
        Node.objects.filter(pk=self.node().row.pk).update(restored_at=moment)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_kept_nodes_are_those_that_would_be_read_after_every_step(seed):
    history, kept = History(seed), NodeCache()
    for _ in range(STEPS):
        history.step()
        assert refreshed(kept) == read_anew()


def test_a_step_that_changes_a_node_reads_that_node_alone():
    nodes, kept = [a_node(f"n{number}", gpus=2).row for number in range(4)], NodeCache()
    before = refreshed(kept)[0]
    Gpu.objects.filter(node=nodes[2], index=0).update(numa_node=1)
    after = refreshed(kept)[0]
    assert [one is other for one, other in zip(before, after, strict=True)] == [
        True,
        True,
        False,
        True,
    ]
    assert after[2] == replace(
        before[2], gpus=(replace(before[2].gpus[0], numa_node=1), before[2].gpus[1])
    )


@pytest.mark.parametrize("name", COUNTED | UNCOUNTED)
def test_a_change_by_any_program_is_seen(name):
    nodes, kept = [a_node(f"n{number}", gpus=2).row for number in (1, 2)], NodeCache()
    refreshed(kept)
    for node in nodes:
        node.refresh_from_db()
    (COUNTED | UNCOUNTED)[name](*nodes)
    assert refreshed(kept) == read_anew()


@pytest.fixture
def ran():
    """A node whose MIG slice a job has."""
    alice = a_user("alice")
    node = a_node("n1", gpus=2)
    a_job(alice, a_project("vision", alice))
    settle(node, rounds=3)
    assert Allocation.objects.live().exists()


BY_HAND = {
    "another job's CPU": lambda: Job.objects.update(cpu_milli=9_000),
    "a project's name": lambda: Project.objects.update(slug="other"),
    "a user's name": lambda: User.objects.update(username="bob"),
    "an attempt of another job": lambda: Attempt.objects.update(job=_another_job()),
    "a replica moved": lambda: Replica.objects.update(node=Node.objects.create(name="n9")),
    "a rank": lambda: Replica.objects.update(rank=3),
    "bound later": lambda: Allocation.objects.update(bound_at=timezone.now() + timedelta(hours=1)),
    "released": lambda: Allocation.objects.update(status="released", released_at=timezone.now()),
    "a slice deleted": lambda: Slice.objects.update(status="deleted"),
    "everything deleted": lambda: (Allocation.objects.all().delete(), Slice.objects.all().delete()),
}


def _another_job() -> Job:
    job = Job.objects.get()
    return a_job(job.owner, job.project, device={"gpus": 2})


@pytest.mark.parametrize("name", BY_HAND)
def test_a_correction_by_hand_is_seen(name, ran):
    kept = NodeCache()
    before = refreshed(kept)
    BY_HAND[name]()
    after = refreshed(kept)
    assert after == read_anew()
    assert after != before


def test_every_column_that_is_read_is_watched(ran):
    """The rows of one more column would be kept although it changed."""
    with CaptureQueriesContext(connection) as seen:
        node_records()
    watched = {}
    for table, _, _ in watched_tables(connection):
        watched.setdefault(table.name, set()).update(table.columns)
    read = {name for query in seen for name in columns_of(query["sql"])}
    assert {table for table, _ in read} == set(watched)
    # A row's own number never changes.
    assert {(t, c) for t, c in read if c != "id" and c not in watched[t]} == set()


def columns_of(sql: str) -> set[tuple[str, str]]:
    """By table. Django calls the tables of subqueries U0, V1 and so on."""
    names = {alias: table for table, alias in re.findall(r'"(\w+)" ([UV]\d)\b', sql)}
    in_subqueries = re.findall(r'\b([UV]\d)\."(\w+)"', sql)
    found = {(names[alias], column) for alias, column in in_subqueries}
    return found | set(re.findall(r'"(\w+)"\."(\w+)"', sql))


def test_a_refresh_that_fails_is_made_up_for(monkeypatch):
    node, kept = a_node("n1", gpus=2).row, NodeCache()
    refreshed(kept)
    node.gpus.update(health="faulted")
    with monkeypatch.context() as broken:
        broken.setattr("portal.planning.node_cache.node_records", lambda *of: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            kept.refresh()
    assert refreshed(kept) == read_anew()


def test_changes_are_kept_for_as_long_as_a_process_keeps_nodes(monkeypatch):
    node, kept = a_node("n1").row, NodeCache()
    refreshed(kept)
    node.gpus.update(health="faulted")
    now = timezone.now()
    changes_purge(now + changes.READ_AGAIN_AFTER)
    assert NodeChange.objects.exists()
    changes_purge(now + changes.RETENTION + timedelta(seconds=1))
    assert not NodeChange.objects.exists()
    monkeypatch.setattr(
        "portal.planning.node_cache.READ_AGAIN_AFTER", timedelta(0)
    )  # that time has passed
    assert refreshed(kept) == read_anew()


def test_after_a_restore_every_node_is_read_again(monkeypatch):
    a_node("n1")
    kept = NodeCache()
    views = refreshed(kept)[0]
    refreshed(kept)
    assert kept.views[0] is views[0]
    everything_changed()
    refreshed(kept)
    assert kept.views[0] is not views[0]


def test_the_triggers_can_be_made_again():
    node, kept = a_node("n1").row, NodeCache()
    refreshed(kept)
    make_triggers()
    call_command("migrate", verbosity=0)
    node.gpus.update(health="faulted")
    assert refreshed(kept) == read_anew()
