"""On PostgreSQL the reasons of a queue are written without waiting for anybody."""

import threading

import pytest
from django.db import connection, transaction

from portal.jobs.models import Job
from portal.jobs.waiting_columns import waiting_columns_write
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.services


def test_a_job_that_somebody_changes_at_the_moment_is_left_for_the_next_pass(postgres_django):
    user = a_user()
    many_jobs(a_job(user, a_project("", user)), 4, reason={"code": "resources"})
    first, *others = Job.objects.order_by("pk").values_list("pk", flat=True)
    values = {pk: {"reason": {"code": "held"}, "position": pk} for pk in (first, *others)}
    locked, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Job.objects.filter(pk=first).lock_rows()
                locked.set()
                assert go_on.wait(300)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(300)
        waiting_columns_write(values)
        written = Job.objects.filter(reason__code="held").order_by("pk")
        assert list(written.values_list("pk", "position")) == [(pk, pk) for pk in others]
    finally:
        go_on.set()
        holder.join()
    waiting_columns_write({pk: {"reason": None, "position": None} for pk in (first, *others)})
    assert Job.objects.filter(reason__isnull=True, position=None).count() == 5
