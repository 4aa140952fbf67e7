"""Reports mark what is gone; the planner's pass releases all of it in one transaction."""

from collections import Counter

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from portal.allocations import services
from portal.allocations.models import Allocation
from portal.allocations.services import allocations_release
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.inventory.models import Node, Slice, SlotClaim
from portal.jobs.models import Job
from portal.live import bell
from portal.quotas.models import Quota
from scheduler import tasks
from scheduler.core.model.states import AllocationStatus, JobStatus, SliceStatus
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
DEVICE = {"gpus": 1}
WHOLE = 56_000


@pytest.fixture
def rung(monkeypatch):
    """The tasks that were rung; none of them runs."""
    names: Counter[str] = Counter()
    monkeypatch.setattr(bell, "_send_once", lambda name, *_, **__: names.update([name]))
    return names


def marked(count: int, project=None, device=DEVICE):
    """A node whose jobs have ended; it has reported that nothing of them is left."""
    user = a_user()
    project = project or a_project("", user, gpus=16)
    node = a_node(gpus=count)
    jobs = [a_job(user, project, device=device) for _ in range(count)]
    while Job.objects.queued().exists():
        tasks.plan_once()
    for _ in range(2):
        node_drive(node_id=node.row.pk)
        node.obey()
    node.finish()
    node_drive(node_id=node.row.pk)
    node.obey()
    assert set(statuses(jobs)) == {JobStatus.SUCCEEDED}
    assert Allocation.objects.filter(status=AllocationStatus.RELEASING).count() == count
    return node


def statuses(jobs):
    return Job.objects.filter(pk__in=[j.pk for j in jobs]).values_list("status", flat=True)


def used() -> set[int]:
    return set(Quota.objects.values_list("used_units", flat=True))


def test_a_report_only_rings_the_pass_that_releases(rung):
    node = marked(2)
    rung.clear()
    node.report()
    assert not rung, "it has rung already"
    assert used() == {2 * WHOLE}
    assert SlotClaim.objects.count() == 16
    tasks.plan_once()
    assert used() == {0}
    assert set(Allocation.objects.values_list("status", flat=True)) == {AllocationStatus.RELEASED}
    assert set(Slice.objects.values_list("status", flat=True)) == {SliceStatus.DELETED}
    assert not SlotClaim.objects.exists()
    for row in Allocation.objects.all():
        assert row.used_seconds == (row.released_at - row.bound_at).seconds
        moves = Event.objects.filter(noun="allocation", noun_id=str(row.pk), new=row.status)
        assert [move.old for move in moves] == [AllocationStatus.RELEASING]


def test_a_release_is_one_transaction_of_as_many_statements_for_one_and_for_many(rung):
    costs = []
    for count in (1, 6):
        marked(count)
        with CaptureQueriesContext(connection) as seen:
            assert allocations_release() == count
        costs.append(Counter(query["sql"].split()[0] for query in seen))
        Node.objects.update(schedulable=False)
    assert costs[0] == costs[1]
    assert costs[0]["BEGIN"] == 1
    # What is marked; owners, quotas, GPUs, slices, allocations; and what each of them becomes.
    assert (costs[0]["SELECT"], costs[0]["UPDATE"], costs[0]["INSERT"]) == (6, 3, 1)


def test_nothing_to_release_is_one_query(rung, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert allocations_release() == 0


def test_what_is_too_much_for_one_transaction_is_left_for_the_next_pass(rung, monkeypatch):
    marked(5)
    monkeypatch.setattr(tasks, "RELEASED_TOGETHER", 2)
    monkeypatch.setattr(tasks, "allocations_release", lambda: allocations_release(limit=2))
    left = []
    for _ in range(3):
        rung.clear()
        tasks.plan_once()
        left.append((used(), rung[bell.PLAN_TASK]))
    assert left == [({3 * WHOLE}, 1), ({WHOLE}, 1), ({0}, 0)]


def test_two_owners_get_back_what_each_of_them_held(rung):
    first, second = a_project("first", gpus=16), a_project("second", gpus=16)
    for project, count in ((first, 2), (second, 3)):
        user = a_user()
        project.memberships.create(user=user, role="member")
        Quota.objects.create(project=project, user=user, limit_units=10**6, guard_units=10**6)
        node = a_node(gpus=count)
        jobs = [a_job(user, project, device=DEVICE) for _ in range(count)]
        while Job.objects.queued().exists():
            tasks.plan_once()
        assert len(set(statuses(jobs))) == 1
    # Only the first project's are given back.
    rows = Allocation.objects.filter(project=first)
    for row in rows:
        services.advance(row, AllocationStatus.RELEASING)
    assert allocations_release() == 2
    held = dict(Quota.objects.values_list("project__slug", "used_units").distinct())
    assert held == {"first": 0, "second": 3 * WHOLE}
    assert node.row.gpus.filter(claims__isnull=False).distinct().count() == 3


def test_one_that_cannot_be_released_does_not_keep_the_others(rung, monkeypatch, caplog):
    marked(3)
    bad = Allocation.objects.order_by("pk")[1]
    real = services._release

    def refuse(ids):
        with services.transaction.atomic():
            done = real(ids)
            if bad.pk in ids:
                raise IntegrityError("its row is damaged")
        return done

    monkeypatch.setattr(services, "_release", refuse)
    assert allocations_release() == 2
    assert used() == {WHOLE}
    bad.refresh_from_db()
    assert bad.status == AllocationStatus.RELEASING
    assert f"allocation {bad.pk} cannot be released" in caplog.text
    monkeypatch.setattr(services, "_release", real)
    assert allocations_release() == 1
    assert used() == {0}
