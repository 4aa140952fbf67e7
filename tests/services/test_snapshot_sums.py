"""The planner's sums on PostgreSQL, whose integers and times are not SQLite's."""

from datetime import timedelta

import pytest

from portal.allocations.models import Allocation
from portal.inventory.node_settings import node_labels_set
from portal.planning.planner_input import planner_input
from portal.quotas.budgets import budget_add
from scheduler.core.model.policy import Policy
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.times import at_epoch

pytestmark = pytest.mark.services

WEEK = 7 * 86_400


@pytest.mark.usefixtures("postgres_django")
def test_what_was_used_for_weeks_is_summed_to_the_unit_second():
    alice = a_user("alice")
    vision = a_project("vision", alice)
    node = a_node("n1")
    node_labels_set(node=node.row, labels=["nvme"], actor="admin")
    for _ in range(2):
        a_job(alice, vision, device={"gpus": 1}, cpu=64)
        settle(node, rounds=3)
        node.finish()
        settle(node, rounds=3)
    a_job(alice, vision, after=["J-1"], priority="low")
    noon = at_epoch(20_000 * 86_400 + 43_200)
    # Far above 32 bits: a GPU for a week in unit-seconds.
    Allocation.objects.filter(released_at__isnull=False).update(
        reserved_at=noon - timedelta(days=7),
        bound_at=noon - timedelta(days=7),
        released_at=noon,
        used_seconds=WEEK,
    )
    budget_add(
        project=vision,
        limit_unit_seconds=10**15,
        starts_at=noon - timedelta(days=8),
        ends_at=noon + timedelta(days=8),
        actor="admin",
    )
    seen = planner_input(now=noon, policy=Policy())
    used = {(owner.user, owner.used_units, owner.used_cpu_milli) for owner in seen.owners}
    amounts = (2 * WEEK * 56_000, 2 * WEEK * 64_000)
    assert used == {("", *amounts), ("alice", *amounts)}
    assert [budget.used_unit_seconds for budget in seen.budgets] == [2 * WEEK * 56_000]
    assert seen.nodes[0].labels == ("nvme",)
    assert len(seen.history) == 2
    assert sum(demand.count for demand in seen.mix.demands) == 3
