"""What a log line names about a job, from its submit to the agent, and when there is none."""

import logging

import pytest
from django.db import transaction

from agents.contract.calls import SyncResponse
from agents.contract.codec import decode_leniently, encode
from agents.loop.action_log import ActionLog
from agents.loop.reconcile import ForgetReplica, PrepareReplica
from portal.agentapi.sync import SyncState, sync_answer
from portal.audit.transitions import advance
from portal.jobs.models import Job, Replica
from portal.request_id import continue_request, end_request
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def submitted():
    """Submits in a request of this id, with a node that has room."""

    def submit(name):
        user = a_user()
        token = continue_request(name)
        try:
            return a_job(user, a_project("", user))
        finally:
            end_request(token)

    return submit


def answer_to(node):
    state = SyncState(node.pk, node.epoch, 0, 0, node.revision, False)
    return sync_answer(state=state, revision=node.revision)


def test_the_agent_learns_which_submit_a_replica_comes_from(submitted, caplog):
    node = a_node().row
    job = submitted("web-4711")
    node.refresh_from_db()
    answer = answer_to(node)
    (replica,) = answer.desired.replicas
    assert replica.rendezvous is None
    (origin,) = answer.origins
    assert origin.replica == replica.id == str(Replica.objects.get().pk)
    assert (origin.job, origin.request_id) == (job.label, "web-4711")
    actions = ActionLog()
    actions.learn(answer.origins)
    with caplog.at_level(logging.INFO, "agents.loop.actions"):
        actions.done(PrepareReplica(replica, ()))
    (line,) = [record for record in caplog.records if record.name == "agents.loop.actions"]
    assert (line.getMessage(), line.job, line.request_id) == (
        "replica_prepared",
        job.label,
        "web-4711",
    )
    actions.done(ForgetReplica(replica.id))
    assert actions.fields(replica.id) == {"replica": replica.id}


def test_an_agent_that_does_not_know_origins_ignores_them(submitted):
    node = a_node().row
    submitted("web-4711")
    node.refresh_from_db()
    document = encode(answer_to(node))
    document["origin_of_a_later_version"] = document.pop("origins")  # as an older agent sees it
    response, errors = decode_leniently(SyncResponse, document)
    assert response.desired and [error.field for error in errors] == ["origin_of_a_later_version"]


def test_a_move_that_is_rolled_back_is_no_line(submitted, caplog):
    job = submitted("web-4711")
    with caplog.at_level(logging.INFO, "portal.audit.transitions"):
        with pytest.raises(RuntimeError), transaction.atomic():
            advance(job, JobStatus.CANCELLED)
            raise RuntimeError
        assert caplog.records == []
        job.refresh_from_db()
        advance(job, JobStatus.CANCELLED)
    (line,) = caplog.records
    assert line.getMessage() == f"{job.label} queued -> cancelled"
    assert line.request_id == "web-4711"


def test_a_line_asks_the_database_for_nothing(submitted, caplog, django_assert_num_queries):
    job = submitted("web-4711")
    full, partly = Job.objects.get(), Job.objects.defer("request_id").get(pk=job.pk)
    for row, named in ((full, True), (partly, False)):
        Job.objects.filter(pk=job.pk).update(status=JobStatus.QUEUED)
        row.status = JobStatus.QUEUED
        caplog.clear()
        level = caplog.at_level(logging.INFO, "portal.audit.transitions")
        # Begin, update, event, commit.
        with level, django_assert_num_queries(4):
            advance(row, JobStatus.CANCELLED)
        assert hasattr(caplog.records[0], "request_id") is named
