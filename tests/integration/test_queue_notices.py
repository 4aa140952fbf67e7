"""Reasons and positions of a long queue: written where they changed, at most once a second, with
one bell for all."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.contract.message import verbatim
from portal.jobs import waiting_columns
from portal.jobs.models import Job
from portal.jobs.waiting_columns import waiting_columns_write
from portal.live import bell, pending
from scheduler.commit import notices
from scheduler.commit.notices import SHORT_QUEUE, deferrals_write
from scheduler.core.model.decisions import Deferral
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.states import JobStatus
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
LONG = SHORT_QUEUE + 20


@pytest.fixture
def rung(monkeypatch):
    keys = []
    monkeypatch.setattr(bell, "_ring", keys.extend)
    monkeypatch.setattr(bell, "_send", lambda *_: True)
    return keys


@pytest.fixture
def clock(monkeypatch, rung):
    """What the monotonic clock shows."""
    shown = [1_000.0]
    monkeypatch.setattr(notices.time, "monotonic", lambda: shown[0])
    return shown


def a_queue(length):
    user = a_user()
    like = a_job(user, a_project("", user))
    many_jobs(like, length - 1, reason=None)
    Job.objects.update(position=None, reason=None)
    # The pass that these jobs have rung.
    pending.take("plan")


def deferrals(sentence, first=1):
    keys = Job.objects.queued().order_by("pk").values_list("pk", flat=True)
    reason = Reason(ReasonCode.RESOURCES, verbatim(sentence))
    return tuple(Deferral(str(pk), reason, place) for place, pk in enumerate(keys, first))


def written():
    rows = Job.objects.queued().order_by("pk").values_list("reason__sentence", "position")
    return list(rows)


def test_all_that_changed_is_one_statement_and_one_ring(rung):
    a_queue(LONG)
    rung.clear()
    new = deferrals("full")
    with CaptureQueriesContext(connection) as seen:
        deferrals_write(new)
    assert [query["sql"].split()[0] for query in seen] == [
        *("SELECT", "BEGIN", "SELECT", "UPDATE", "COMMIT")
    ]
    assert written() == [("full", place) for place in range(1, LONG + 1)]
    assert rung == [bell.QUEUE]


def test_what_did_not_change_is_not_written_and_rings_nothing(rung):
    a_queue(3)
    same = deferrals("full")
    deferrals_write(same)
    rung.clear()
    with CaptureQueriesContext(connection) as seen:
        deferrals_write(same)
    assert (len(seen), rung) == (1, [])


def test_a_short_queue_is_written_by_each_pass(clock):
    a_queue(SHORT_QUEUE)
    for sentence in ("full", "still full"):
        deferrals_write(deferrals(sentence))
        assert written()[-1] == (sentence, SHORT_QUEUE)


def test_a_long_queue_is_written_at_most_once_a_second(clock):
    a_queue(LONG)
    deferrals_write(deferrals("full", first=2))
    clock[0] += 0.9
    deferrals_write(deferrals("still full", first=1))
    assert written()[0] == ("full", 2)
    clock[0] += 0.2
    deferrals_write(deferrals("still full", first=1))
    assert written() == [("still full", place) for place in range(1, LONG + 1)]


def test_a_pass_that_is_rung_again_leaves_reasons_to_the_next_one_for_a_second(clock):
    a_queue(3)
    deferrals_write(deferrals("full"))
    new = deferrals("still full")
    pending.mark("plan")
    clock[0] += 0.9
    with CaptureQueriesContext(connection) as seen:
        deferrals_write(new)
    assert (len(seen), written()[0]) == (0, ("full", 1))
    clock[0] += 0.2
    deferrals_write(new)
    assert written()[0] == ("still full", 1), "whatever is rung"
    pending.take("plan")
    deferrals_write(deferrals("free"))
    assert written()[0] == ("free", 1)


def test_a_new_job_has_its_reason_at_once(clock):
    a_queue(LONG)
    deferrals_write(deferrals("full"))
    like = Job.objects.first()
    many_jobs(like, 1, reason=None)
    deferrals_write(deferrals("still full"))
    assert written()[-1] == ("still full", LONG + 1)
    assert set(written()[:-1]) == {("full", place) for place in range(1, LONG + 1)}


def test_a_job_that_no_longer_waits_is_left_alone(rung):
    a_queue(3)
    new = deferrals("full")
    first = Job.objects.order_by("pk").first()
    Job.objects.filter(pk=first.pk).update(status=JobStatus.CANCELLED)
    deferrals_write(new)
    first.refresh_from_db()
    assert (first.reason, first.position) == (None, None)
    assert [place for _, place in written()] == [2, 3]


def test_batches_are_transactions_of_their_own_and_null_is_null(monkeypatch):
    a_queue(5)
    monkeypatch.setattr(waiting_columns, "BATCH_SIZE", 2)
    keys = list(Job.objects.values_list("pk", flat=True))
    with CaptureQueriesContext(connection) as seen:
        waiting_columns_write({pk: {"estimate": {"n": pk}} for pk in keys})
    assert sum(query["sql"] == "COMMIT" for query in seen) == 3
    assert set(Job.objects.values_list("estimate__n", flat=True)) == set(keys)
    waiting_columns_write({pk: {"estimate": None} for pk in keys})
    assert Job.objects.filter(estimate__isnull=True).count() == 5
