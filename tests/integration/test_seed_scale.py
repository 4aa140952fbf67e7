"""`manage.py seed_scale`: the same rows for the same seed, and rows that could be real ones."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Sum
from django.utils import timezone

from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from portal.allocations.models import Allocation
from portal.availability.nodes import node_summaries
from portal.demo.scale import ClusterSize
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.inventory.selectors import gpus
from portal.jobs.models import Job
from portal.planning.planner_input import planner_input, queued_jobs
from portal.planning.snapshot import cluster_snapshot
from portal.quotas.models import Quota
from scheduler.core.availability.cluster import cluster_availability
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import ALLOCATION_LIVE, JobStatus
from scheduler.core.request import parse_stored_request
from tests.support.rows import a_node, a_user
from tests.support.scale_rows import NOW, seeded

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = ClusterSize(jobs=500, nodes=30, users=30, projects=5)
LIVE = [str(status) for status in ALLOCATION_LIVE]


def fingerprint() -> str:
    rows = [
        [*Job.objects.order_by("pk").values_list("uid", "name", "status", "submitted_at")],
        [*Gpu.objects.order_by("uuid").values_list("uuid", "board", "desired_mode")],
        [*Slice.objects.order_by("pk").values_list("pk", "profile", "start", "status")],
        [*Allocation.objects.order_by("pk").values_list("pk", "units", "used_seconds", "bound_at")],
    ]
    return hashlib.sha256(json.dumps(rows, default=str).encode()).hexdigest()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_and_another_one_others():
    found = []
    for seed in (7, 7, 8):
        call_command("flush", verbosity=0, interactive=False)
        seeded(SIZE, seed=seed)
        found.append(fingerprint())
    assert found[0] == found[1] != found[2]


def test_it_has_every_state_and_as_many_rows_as_were_asked_for():
    seeded(SIZE)
    assert Job.objects.count() == SIZE.jobs
    assert Node.objects.count() == SIZE.nodes
    assert Gpu.objects.count() == SIZE.nodes * 8
    assert set(Job.objects.values_list("status", flat=True)) >= set(JobStatus) - {
        JobStatus.SUBMITTED
    }
    waiting = Job.objects.filter(status=JobStatus.QUEUED)
    assert not waiting.filter(reason=None).exists()
    assert waiting.exclude(estimate=None).exists()
    assert {slice_.kind for slice_ in Slice.objects.all()} == {"gpu", "mig", "mps"}


def test_what_stands_on_each_gpu_is_legal_and_claimed_once():
    seeded(SIZE)
    for gpu in gpus():
        taken = [Placement(s.start, s.size, s.profile) for s in gpu.live_slices if s.profile]
        assert layout_table(board_of(gpu)).is_legal(taken)
        whole = [s for s in gpu.live_slices if not s.profile and not s.threads]
        assert len(whole) <= 1
        assert not (whole and taken)
    sizes = Slice.objects.exclude(kind="mps").exclude(status="deleted")
    assert SlotClaim.objects.count() == sizes.aggregate(n=Sum("size"))["n"]


def test_holders_of_a_gpu_never_overlap_and_quotas_count_what_is_held():
    seeded(SIZE)
    spans = defaultdict(list)
    for row in Allocation.objects.select_related("slice").exclude(slice__kind__in=("mps", "mig")):
        spans[row.slice.gpu_id].append((row.reserved_at, row.released_at or NOW))
    for held in spans.values():
        held.sort()
        for (_, end), (start, _) in pairwise(held):
            assert end <= start
    units = Allocation.objects.filter(status__in=LIVE).aggregate(n=Sum("units"))["n"]
    counted = Quota.objects.filter(user=None).aggregate(n=Sum("used_units"))["n"]
    assert counted == units
    oldest = Allocation.objects.earliest("reserved_at").reserved_at
    assert NOW - oldest > timedelta(days=40)


def test_planner_and_request_reader_take_what_it_writes():
    seeded(SIZE)
    for job in Job.objects.all():
        assert parse_stored_request(job.request).name == job.name
    snapshot = planner_input(now=NOW, policy=Policy(), jobs=queued_jobs())
    assert len(snapshot.jobs) == queued_jobs().count()


def test_idle_slices_are_those_of_the_rows():
    seeded(SIZE)
    cluster = cluster_availability(cluster_snapshot(now=NOW))
    held = set(Allocation.objects.filter(status__in=LIVE).values_list("slice_id", flat=True))
    for node in node_summaries(cluster):
        live = Slice.objects.filter(gpu__node__name=node.name)
        live = live.exclude(status__in=("deleted", "deleting"))
        ready = live.filter(kind="mig", status="ready", busy="", gpu__health="ok", gpu__busy="")
        idle = ready.exclude(pk__in=held).count()
        assert node.total.idle_slices == (idle if node.takes_work else 0), node.name
        assert node_summaries(cluster, node.name) == [node]


def test_the_command_refuses_a_database_with_rows_unless_told(capsys):
    a_node("real")
    with pytest.raises(CommandError, match="already has 1 nodes"):
        call_command("seed_scale", "--jobs", "20", "--nodes", "4")
    assert Node.objects.count() == 1
    call_command("seed_scale", "--jobs", "20", "--nodes", "4", "--users", "5", "--beside")
    assert Node.objects.count() == 5
    assert "20 jobs" in capsys.readouterr().out


def test_people_cannot_sign_in_unless_a_password_was_asked_for(client):
    seeded(ClusterSize(jobs=20, nodes=4, users=5, projects=2))
    assert not client.login(username="alice", password="")
    call_command("flush", verbosity=0, interactive=False)
    seeded(
        ClusterSize(jobs=20, nodes=4, users=5, projects=2), now=timezone.now(), password="p" * 20
    )
    assert client.login(username="alice", password="p" * 20)


def test_it_never_touches_people_who_are_there(capsys):
    a_user("alice")
    with pytest.raises(CommandError, match="already exist here"):
        call_command("seed_scale", "--jobs", "20", "--nodes", "4")
