"""A retry of an ended job goes on where that one saved its work."""

import pytest

from agents.contract.file_transfer import TreeKind
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.desired.documents import compile_desired
from portal.files.selectors import newest_checkpoint
from portal.jobs.services import job_cancel
from portal.submission.retries import job_retry
from tests.support.file_rows import a_tree
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_retry_of_a_failed_job_starts_with_its_checkpoint():
    node, alice = a_node(), a_user()
    project = a_project("", alice, gpus=8)
    job = a_job(alice, project, device={"gpus": 1})
    settle(node)
    a_tree(job.attempts.get().replicas.get(), {"saved.json": b"{}"}, TreeKind.CHECKPOINT, step=3)
    node.finish(1)
    settle(node)
    job.refresh_from_db()
    retry = job_retry(job=job, actor=alice, limits=LIMITS)
    assert "from its step 3" in Event.objects.get(job=retry, code=EventCode.RETRIES).sentence
    settle(node)
    (told,) = compile_desired(node.row).replicas
    assert (told.job, told.attempt, told.has_checkpoint) == (str(retry.uid), 1, True)
    assert [tree.step for tree in newest_checkpoint(retry)] == [3]
    # The retry of a retry that saved nothing starts with the same.
    job_cancel(job=retry, actor="alice")
    settle(node)
    retry.refresh_from_db()
    assert job_retry(job=retry, actor=alice, limits=LIMITS).resumes == job
