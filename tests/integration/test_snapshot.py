"""What the planner is told: who runs where, who used how much, what was asked for lately."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.services import membership_share_set, project_share_set
from portal.allocations.models import Allocation
from portal.errors import Refused
from portal.inventory.models import Gpu
from portal.inventory.node_settings import gpu_pin, gpu_unpin, node_labels_set, node_taints_set
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.planning.planner_input import planner_input
from portal.planning.usage import SCALE, decay
from portal.quotas.budgets import budget_add, budget_remove
from portal.quotas.models import Budget, Quota
from portal.quotas.policy import current_policy, policy_set
from portal.quotas.services import quota_set
from scheduler.core.model.policy import BackfillMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import DeviceRequest
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.times import ago, ahead, at_epoch

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 86_400


def snapshot(now: datetime | None = None, **options):
    return planner_input(now=now or timezone.now(), policy=Policy(**options))


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def test_a_running_job_is_told_with_its_places_and_what_is_left_of_its_limit(alice, vision):
    one, two = a_node("n1"), a_node("n2")
    job = a_job(alice, vision, replicas=2, topology="any", name="run-17", priority="low")
    settle(one, two)
    Job.objects.filter(pk=job.pk).update(attained_seconds=600, preempted=2)
    (seen,) = snapshot().running
    assert (seen.job.id, seen.job.preemptible, seen.job.preempted) == (str(job.pk), True, 2)
    assert seen.job.group == "run-#"
    assert [r.rank for r in seen.replicas] == [0, 1]
    assert {r.node for r in seen.replicas} == {str(one.row.pk), str(two.row.pk)}
    held = {str(pk) for pk in Allocation.objects.values_list("slice_id", flat=True)}
    assert {d.slice for r in seen.replicas for d in r.devices} == held
    job.refresh_from_db()
    assert seen.started_at == int(job.started_at.timestamp())
    assert seen.ends_at == seen.started_at + 3_600 - 600
    assert not seen.stopping
    job_cancel(job=job, actor="alice")
    assert snapshot().running[0].stopping


def test_a_job_that_still_prepares_cannot_end_before_its_whole_limit_has_passed(alice, vision):
    a_node()
    a_job(alice, vision)
    now = ahead(minutes=5)
    (seen,) = snapshot(now).running
    assert seen.started_at == int(now.timestamp())


def used_by(alice, vision, node, *, bound_at, released_at):
    """One job of a whole GPU that held it for this time, to the second."""
    job = a_job(alice, vision, device={"gpus": 1}, cpu=2, memory="1GiB")
    settle(node, rounds=3)
    node.finish()
    settle(node, rounds=3)
    seconds = int((released_at - bound_at).total_seconds())
    rows = Allocation.objects.filter(replica__attempt__job=job)
    assert rows.get().used_seconds == (rows.get().released_at - rows.get().bound_at).seconds
    rows.update(
        reserved_at=bound_at, bound_at=bound_at, released_at=released_at, used_seconds=seconds
    )
    return job


def test_what_an_owner_used_halves_with_the_half_life_and_sums_up_to_the_project(alice, vision):
    node = a_node()
    noon = at_epoch(20_000 * DAY + DAY // 2)
    for days in (0, 7):
        end = noon - timedelta(days=days)
        used_by(alice, vision, node, bound_at=end - timedelta(hours=1), released_at=end)
    old = noon - timedelta(days=60)
    used_by(alice, vision, node, bound_at=old - timedelta(hours=1), released_at=old)
    project_share_set(project=vision, actor="admin", weight=3, max_running=9)
    membership_share_set(project=vision, user=alice, actor="admin", weight=2, max_running=4)

    whole, mine = snapshot(noon, half_life_seconds=7 * DAY).owners
    assert (whole.project, whole.user, whole.weight, whole.max_running) == ("vision", "", 3, 9)
    assert (mine.project, mine.user, mine.weight, mine.max_running) == ("vision", "alice", 2, 4)
    # A full hour and half an hour; what is older than eight half-lives is nothing.
    assert mine.used_units == 56_000 * 5_400 == whole.used_units
    assert mine.used_cpu_milli == 2_000 * 5_400
    assert mine.used_memory_mib == 1_024 * 5_400


def test_decay_halves_at_the_half_life():
    assert [decay(age, 100) for age in (0, 100, 200)] == [SCALE, SCALE // 2, SCALE // 4]


def test_what_is_held_counts_for_its_owner_from_when_it_was_bound(alice, vision):
    node = a_node(gpus=2)
    a_job(alice, vision, device={"gpus": 2}, cpu=4)
    settle(node)
    now = timezone.now()
    Allocation.objects.update(bound_at=now - timedelta(seconds=1_000))
    mine = next(owner for owner in snapshot(now).owners if owner.user)
    assert mine.used_units == 2 * 56_000 * 1_000
    assert mine.used_cpu_milli == 4_000 * 1_000, "the CPU of a replica counts once"


def test_a_budget_is_used_by_what_ran_inside_its_window_and_held_by_what_runs(alice, vision):
    node = a_node()
    now = at_epoch(20_000 * DAY)
    hour = timedelta(hours=1)
    bob = a_user("bob")
    begin = now - 10 * hour
    used_by(alice, vision, node, bound_at=begin + hour, released_at=begin + 2 * hour)
    used_by(alice, vision, node, bound_at=begin - hour, released_at=begin + hour / 2)
    used_by(alice, vision, node, bound_at=begin - 3 * hour, released_at=begin - 2 * hour)
    job = a_job(alice, vision, device={"gpus": 1}, time_limit="2h")
    settle(node)
    bound = now - hour / 4
    Allocation.objects.filter(replica__attempt__job=job).update(bound_at=bound, reserved_at=bound)
    Job.objects.filter(pk=job.pk).update(started_at=bound)
    for user in (None, alice, bob):
        budget_add(
            project=vision,
            user=user,
            limit_unit_seconds=10**12,
            starts_at=begin,
            ends_at=now + 24 * hour,
            actor="admin",
        )
    whole, mine, none = snapshot(now).budgets
    assert (whole.user, mine.user, none.user) == ("", "alice", "bob")
    assert mine.used_unit_seconds == 56_000 * (3_600 + 1_800 + 900) == whole.used_unit_seconds
    assert mine.reserved_unit_seconds == 56_000 * (7_200 - 900) == whole.reserved_unit_seconds
    assert (none.used_unit_seconds, none.reserved_unit_seconds) == (0, 0)
    assert snapshot(now + 24 * hour).budgets == (), "its time is over"
    budget_remove(budget=Budget.objects.first(), actor="admin")
    assert len(snapshot(now).budgets) == 2


@pytest.mark.parametrize(
    "wrong", [{"limit_unit_seconds": -1}, {"ends_at": at_epoch(0)}], ids=["limit", "interval"]
)
def test_a_budget_that_makes_no_sense_is_refused(vision, wrong):
    given = {"limit_unit_seconds": 1, "starts_at": at_epoch(0), "ends_at": at_epoch(1)}
    with pytest.raises(Refused, match="budget_invalid"):
        budget_add(project=vision, actor="admin", **(given | wrong))


def test_the_mix_counts_replicas_of_like_requests_and_how_many_left(alice, vision):
    assert snapshot().mix.demands == ()
    node = a_node(gpus=4)
    for _ in range(3):
        a_job(alice, vision, device={"gpus": 1})
    gang = a_job(alice, vision, device={"mig": "1g.18gb"}, replicas=4, topology="any")
    settle(node)
    first, second = snapshot().mix.demands
    assert (first.device, first.count) == (DeviceRequest(mig="1g.18gb"), 4)
    assert (second.device, second.count) == (DeviceRequest(gpus=1), 3)
    assert snapshot().mix.departures_per_start == 0
    node.finish()
    settle(node)
    assert snapshot().mix.departures_per_start == 1
    assert gang.pk


def test_past_runs_come_in_the_order_of_their_end_and_say_how_they_ended(alice, vision):
    node = a_node()
    for number, (code, limit) in enumerate([(0, {}), (3, {"time_limit": "2h"})]):
        a_job(alice, vision, name=f"train-{number}", device={"gpus": 1}, **limit)
        settle(node)
        node.finish(exit_code=code)
        settle(node)
    a_job(alice, vision, begin_at="+1h")
    jobs = list(Job.objects.order_by("pk"))
    now = timezone.now()
    for ended, job in ((20, jobs[0]), (10, jobs[1])):
        Job.objects.filter(pk=job.pk).update(
            finished_at=now - timedelta(minutes=ended),
            started_at=now - timedelta(minutes=ended + 30),
        )
    Job.objects.filter(pk=jobs[1].pk).update(attained_seconds=60, limit_is_chosen=False)
    first, second = snapshot().history
    assert (first.group, first.completed, first.ran_seconds) == ("train-#", True, 1_800)
    assert (second.completed, second.ran_seconds, second.limit_seconds) == (False, 1_860, 7_200)
    assert (first.limit_is_chosen, second.limit_is_chosen) == (True, False)
    assert first.ended_at < second.ended_at


def test_quotas_of_a_model_count_only_its_gpus(alice, vision):
    hopper, other = a_node("h"), a_node("a", board="A30-24GB")
    for model, gpus in (("H200", 1), ("A30", 2)):
        quota_set(project=vision, model=model, limit_units=56_000 * gpus, actor="admin")
    a_job(alice, vision, device={"gpus": 1, "models": ["A30"]})
    settle(hopper, other)
    used = dict(Quota.objects.values_list("model", "used_units"))
    assert used == {"": 56_000, "H200": 0, "A30": 56_000}
    quota_set(project=vision, user=alice, model="A30", limit_units=56_000, actor="admin")
    assert Quota.objects.get(user=alice).used_units == 56_000, "what is held already counts"
    views = {(q.model, q.user): q.limit_units for q in snapshot().quotas}
    assert views[("A30", "alice")] == 56_000
    other.finish()
    settle(hopper, other)
    assert set(Quota.objects.values_list("used_units", flat=True)) == {0}


def test_borrowing_widens_what_the_database_lets_a_project_and_its_users_hold(alice, vision):
    quota_set(project=vision, limit_units=56_000, borrow_units=56_000, lend_units=7, actor="a")
    mine = quota_set(project=vision, user=alice, limit_units=56_000, actor="a")
    whole = Quota.objects.get(user=None)
    assert (whole.guard_units, whole.lend_units) == (112_000, 7)
    assert (mine.borrow_units, mine.guard_units) == (56_000, 112_000)
    Quota.objects.update(used_units=100_000)
    quota_set(project=vision, limit_units=56_000, borrow_units=0, actor="a")
    mine.refresh_from_db()
    whole.refresh_from_db()
    assert (mine.borrow_units, mine.guard_units) == (0, 100_000), "what is held stays"
    assert whole.guard_units == 100_000
    quota_set(project=vision, limit_units=60_000, actor="a")
    whole.refresh_from_db()
    assert (whole.borrow_units, whole.lend_units) == (0, 7), "what is not named stays"


def test_users_neither_borrow_nor_lend_by_themselves(alice, vision):
    with pytest.raises(Refused, match="project_only"):
        quota_set(project=vision, user=alice, limit_units=1, borrow_units=1, actor="a")


def test_labels_taints_and_pins_reach_the_planner_and_the_story(alice, vision):
    node = a_node("n1").row
    gpu = Gpu.objects.get()
    node_labels_set(node=node, labels=["nvme", "zone=a", "nvme"], actor="admin")
    node_taints_set(node=node, taints=["staging"], reason="new cables", actor="admin")
    gpu_pin(gpu=gpu, reason="a course uses it", actor="admin")
    (seen,) = snapshot().nodes
    assert (seen.labels, seen.taints) == (("nvme", "zone=a"), ("staging",))
    assert seen.gpus[0].pinned
    for wrong in (
        lambda: node_labels_set(node=node, labels=["a b"], actor="admin"),
        lambda: node_taints_set(node=node, taints=["staging"], reason=" ", actor="admin"),
        lambda: gpu_pin(gpu=gpu, reason="", actor="admin"),
    ):
        with pytest.raises(Refused):
            wrong()
    gpu_unpin(gpu=gpu, actor="admin")
    node_taints_set(node=node, taints=[], reason="", actor="admin")
    (seen,) = snapshot().nodes
    assert (seen.taints, seen.gpus[0].pinned) == ((), False)
    node.refresh_from_db()
    assert node.taint_reason == ""


def test_a_gpu_that_was_carved_settles_before_it_is_carved_again(alice, vision, settings):
    settings.PLATFORM = replace(settings.PLATFORM, partition_dwell_seconds=300)
    node = a_node()
    a_job(alice, vision)
    settle(node)
    (gpu,) = snapshot().nodes[0].gpus
    assert 0 < gpu.settles_at - ago().timestamp() <= 300


def test_the_policy_is_the_defaults_until_somebody_sets_it():
    assert current_policy() == Policy()
    row = policy_set(actor="admin", version=1, backfill="conservative", moves=1)
    assert current_policy() == Policy(backfill=BackfillMode.CONSERVATIVE, moves=1)
    policy_set(actor="admin", version=row.version, preemption="off")
    assert current_policy().preemption is PreemptionMode.OFF
    with pytest.raises(Refused, match="version_stale"):
        policy_set(actor="admin", version=1, merge=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "random"},
        {"hysteresis": 0.5},
        {"hysteresis": float("nan")},
        {"moves": -1},
        {"half_life_seconds": 0},
        {"reservations": "many"},
        {"merge": "perhaps"},
        {"colour": 1},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(Refused, match="policy_invalid"):
        policy_set(actor="admin", **wrong)
    assert current_policy() == Policy()


def test_a_pass_asks_the_database_as_often_for_many_rows_as_for_few(alice, vision):
    def count() -> int:
        snapshot()
        with CaptureQueriesContext(connection) as asked:
            snapshot()
        return len(asked)

    for days in (1, 2):
        budget_add(
            project=vision,
            limit_unit_seconds=1,
            starts_at=ago(days=days),
            ends_at=ahead(days=1),
            actor="admin",
        )
    nodes = [a_node("n1", gpus=2)]
    first = a_job(alice, vision, device={"gpus": 1})
    settle(*nodes)
    a_job(alice, vision, device={"gpus": 2}, after=[first.label])
    few = count()
    nodes.append(a_node("n2", gpus=2))
    for number in range(4):
        bob = a_user()
        home = a_project("", bob)
        a_job(bob, home, device={"gpus": 1})
        late = a_job(bob, home, begin_at="+1h", name=f"late-{number}")
        a_job(bob, home, after=[late.label])
    settle(*nodes)
    budget_add(
        project=vision,
        user=alice,
        limit_unit_seconds=1,
        starts_at=ago(days=9),
        ends_at=ahead(days=1),
        actor="admin",
    )
    assert count() == few
