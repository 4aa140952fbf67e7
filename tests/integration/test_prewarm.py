"""Slices that a pass makes before anybody asks: from rows through plan and committer to rows."""

from dataclasses import replace

import pytest
from django.utils import timezone

from portal.allocations.models import Allocation
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.inventory.models import Gpu, Node, Slice
from portal.inventory.node_settings import gpu_pin
from portal.planning.planner_input import planner_input
from portal.quotas.policy import current_policy
from scheduler.commit.partitions import carve_commit
from scheduler.commit.plan import commit
from scheduler.core.model.decisions import Carve
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.core.model.states import JobStatus, NodeStatus, SliceStatus
from scheduler.core.plan import plan
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


def one_pass(profile, count=9):
    """A pass that knows what was asked for lately."""
    policy = replace(current_policy(), warm=True)
    snapshot = planner_input(now=timezone.now(), policy=policy)
    mix = DemandMix((Demand(DeviceRequest(mig=profile), 1_000, 1_024, count),))
    return commit(plan(replace(snapshot, mix=mix), policy))


@pytest.fixture
def node():
    """One GPU on which a job runs on a 2g.35gb."""
    alice = a_user("alice")
    vision = a_project("vision", alice)
    found = a_node()
    job = a_job(alice, vision)
    settle(found)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    return found


def test_what_a_pass_carves_ahead_is_ready_for_who_comes_next(node):
    one_pass("2g.35gb")
    node_drive(node_id=node.row.pk)
    node.obey()
    ready = Slice.objects.filter(status=SliceStatus.READY)
    warm = set(ready.exclude(pk__in=Allocation.objects.values("slice")))
    assert {row.profile for row in warm} == {"2g.35gb"}
    reason = Event.objects.filter(code=EventCode.CARVE).earliest("pk").sentence
    assert "The chance that the next requests need one more 2g.35gb" in reason
    made = node.makes
    bob = a_user("bob")
    job = a_job(bob, a_project("audio", bob))
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert Allocation.objects.latest("reserved_at").slice in warm
    assert node.makes == made


def test_a_second_pass_leaves_what_the_first_prepared(node):
    one_pass("2g.35gb")
    before = list(Slice.objects.order_by("pk").values_list("pk", "status"))
    assert len(before) > 1
    one_pass("2g.35gb")
    assert list(Slice.objects.order_by("pk").values_list("pk", "status")) == before


def test_idle_slices_that_nobody_will_want_are_deleted_once_their_gpu_has_settled(node, settings):
    settings.PLATFORM = replace(settings.PLATFORM, partition_dwell_seconds=300)
    one_pass("2g.35gb")
    node_drive(node_id=node.row.pk)
    node.obey()
    one_pass("3g.71gb")
    assert not Slice.objects.filter(status=SliceStatus.DELETING).exists(), "it settles"
    Gpu.objects.update(settles_at=timezone.now())
    one_pass("3g.71gb")
    gone = Slice.objects.filter(status=SliceStatus.DELETING)
    assert gone.exists()
    assert not gone.filter(pk__in=Allocation.objects.values("slice")).exists()


def test_nothing_is_carved_ahead_on_a_node_that_was_retired_since_the_pass(node):
    Node.objects.update(status=NodeStatus.RETIRED)
    before = Slice.objects.count()
    assert not carve_commit(Carve(str(Gpu.objects.get().pk), "1g.18gb", start=6, size=1))
    assert Slice.objects.count() == before


def test_nothing_is_carved_ahead_on_a_pinned_gpu(node):
    gpu_pin(gpu=Gpu.objects.get(), reason="a course uses it", actor="admin")
    one_pass("2g.35gb")
    assert Slice.objects.count() == 1


def test_a_policy_prepares_nothing_by_itself(node):
    assert not current_policy().warm
