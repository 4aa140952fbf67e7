"""What a request is told before it is submitted: on the page, over REST, from one look at rows."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Role
from portal.accounts.services import project_share_set
from portal.errors import Refused
from portal.inventory.models import Gpu
from portal.jobs.models import Job
from portal.planning import node_cache, snapshot_ahead
from portal.planning import snapshot_cache as world
from portal.planning.history_cache import process_history
from portal.planning.snapshot_ahead import SnapshotAhead
from portal.quotas.budgets import budget_add
from portal.quotas.models import Quota
from portal.submission.dry_run import DryRunVerdict, dry_run, expected_starts
from scheduler.core.model.states import JobStatus
from scheduler.core.request import parse_request
from scheduler.tasks import plan_once
from tests.support.ended_jobs import ended_jobs
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user, settle
from tests.support.times import ago, ahead

pytestmark = pytest.mark.django_db(transaction=True)
GPU, HOUR = 56_000, 3_600


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice, gpus=4)


def job_request(vision, **fields):
    return parse_request(a_request(vision, **fields), LIMITS)


def foreseen(alice, vision, **fields):
    return dry_run(user=alice, request=job_request(vision, **fields))


def places_of(job):
    return {
        (replica.rank, replica.node.name, held.slice.gpu.index, held.slice.profile)
        for replica in job.attempts.get().replicas.all()
        for held in replica.allocations.all()
    }


@pytest.mark.parametrize(
    "fields", [{"device": {"gpus": 2}}, {"device": {"mig": "2g.35gb"}, "replicas": 3}]
)
def test_a_job_starts_where_it_was_foreseen(alice, vision, fields):
    a_node("n1", gpus=2)
    found = foreseen(alice, vision, **fields)
    assert found.verdict is DryRunVerdict.NOW and not Job.objects.exists()
    job = a_job(alice, vision, **fields)
    plan_once()
    told = {(one.rank, one.node, one.gpu, one.profile) for one in found.devices}
    assert told == places_of(job)
    assert found.carves == ("mig" in fields["device"])


def test_every_limit_of_the_project_and_of_the_user_is_told_in_whole_units(alice, vision):
    Quota.objects.create(project=vision, user=alice, limit_units=2 * GPU, guard_units=2 * GPU)
    node = a_node("n1", gpus=4)
    a_job(alice, vision, device={"gpus": 1}, time_limit="2h")
    settle(node)
    other = a_project("speech", a_user("vera"))
    budget = {"starts_at": ago(days=1), "ends_at": ahead(days=1), "actor": "root"}
    budget_add(project=vision, limit_unit_seconds=10 * GPU * HOUR, **budget)
    budget_add(project=other, limit_unit_seconds=GPU, **budget)
    found = foreseen(alice, vision, device={"gpus": 1}, time_limit="3h")
    whole, own, hours = found.limits
    assert (whole.user, whole.before, whole.after, whole.limit) == ("", GPU, 2 * GPU, 4 * GPU)
    assert (own.user, own.before, own.after, own.limit) == ("alice", GPU, 2 * GPU, 2 * GPU)
    assert hours.is_budget and hours.limit == 10 * GPU * HOUR
    assert hours.after - hours.before == 3 * GPU * HOUR == found.unit_seconds
    assert not any(limit.is_exceeded for limit in found.limits)
    assert foreseen(alice, vision, device={"gpus": 2}).limits[1].is_exceeded


def test_a_limit_of_one_model_counts_only_what_gets_that_model(alice, vision):
    a_node("n1")
    for model in ("H200", "A100"):
        row = {"limit_units": GPU, "guard_units": GPU}
        Quota.objects.create(project=vision, model=model, **row)
    found = foreseen(alice, vision)
    assert [(one.model, one.after) for one in found.limits] == [("", 16_000), ("H200", 16_000)]


def test_one_question_reads_the_rows_once_and_the_next_one_hardly_any(alice, vision):
    a_node("n1")
    foreseen(alice, vision)
    a_job(alice, vision, begin_at="+2h")
    node_cache.clear_all()
    with CaptureQueriesContext(connection) as first:
        foreseen(alice, vision)
    with CaptureQueriesContext(connection) as second:
        foreseen(alice, vision, device={"gpus": 1})
    for table in ("inventory_slice", "inventory_node", "jobs_job_after"):
        reads = [query["sql"] for query in first if f'FROM "{table}"' in query["sql"]]
        # Whether something has changed is one number.
        assert sum("COUNT(" not in sql for sql in reads) == 1, table
    assert len(second) < 10


def test_what_changed_since_is_in_the_next_answer(alice, vision):
    node = a_node("n1")
    whole = {"device": {"gpus": 1}}
    assert foreseen(alice, vision, **whole).verdict is DryRunVerdict.NOW
    a_job(alice, vision, **whole)
    settle(node)
    assert foreseen(alice, vision, **whole).verdict is DryRunVerdict.WAIT
    a_node("n2")
    assert foreseen(alice, vision, **whole).devices[0].node == "n2"
    Gpu.objects.filter(node__name="n2").update(busy="somebody's own process")
    assert foreseen(alice, vision, **whole).verdict is DryRunVerdict.WAIT


def test_a_large_cluster_is_read_again_only_now_and_then(alice, vision, monkeypatch):
    a_node("n1")
    monkeypatch.setattr(world, "LARGE", 1)
    first = foreseen(alice, vision)
    a_job(alice, vision)
    assert foreseen(alice, vision).at == first.at
    monkeypatch.setattr(world, "LARGE_MAX_AGE_SECONDS", 0)
    monkeypatch.setattr(world, "MAX_AGE_SECONDS", 0)
    assert foreseen(alice, vision).at > first.at


def test_of_a_large_cluster_nobody_waits_while_it_is_read_anew(alice, vision, monkeypatch):
    a_node("n1")
    work = []
    monkeypatch.setattr(world, "LARGE", 1)
    monkeypatch.setattr(world, "LARGE_MAX_AGE_SECONDS", 0)
    monkeypatch.setattr(world, "run_in_background", work.append)
    monkeypatch.setattr(world.connections, "close_all", lambda: None)
    first = foreseen(alice, vision)
    a_job(alice, vision)
    assert [foreseen(alice, vision).at for _ in range(3)] == [first.at] * 3
    assert len(work) == 1, "one reader at a time"
    work.pop()()
    assert foreseen(alice, vision).at > first.at


def test_of_a_large_cluster_the_first_question_finds_what_was_read_ahead(
    alice, vision, monkeypatch
):
    a_node("n1")
    monkeypatch.setattr(world, "LARGE", 1)
    monkeypatch.setattr(world.connections, "close_all", lambda: None)
    ahead = SnapshotAhead()
    ahead.renew_snapshot()
    began = timezone.now()
    assert foreseen(alice, vision).at < began
    # Old enough to be renewed, by then nobody has asked for too long.
    monkeypatch.setattr(snapshot_ahead, "RENEW", timedelta(0))
    ahead.renew_snapshot()
    read = foreseen(alice, vision).at
    assert read > began
    monkeypatch.setattr(snapshot_ahead, "KEPT", timedelta(0))
    ahead.renew_snapshot()
    assert foreseen(alice, vision).at == read


def test_of_a_small_cluster_nothing_is_read_ahead(alice, vision):
    a_node("n1")
    began = timezone.now()
    ahead = SnapshotAhead()
    ahead.renew_snapshot()
    ahead.renew_snapshot()
    assert foreseen(alice, vision).at > began


def test_who_waits_is_told_when_and_what_would_start_now(alice, vision):
    ended_jobs(alice, vision, 40)
    node = a_node("n1", gpus=2)
    process_history().refresh(timezone.now())
    a_job(alice, vision, device={"gpus": 1}, time_limit="1h")
    settle(node)
    found = foreseen(alice, vision, device={"gpus": 2})
    assert found.verdict is DryRunVerdict.WAIT and found.reason["code"] == "resources"
    assert found.estimate.optimistic <= found.estimate.expected <= found.estimate.pessimistic
    changes = [one.changes["device"] for one in found.alternatives if "device" in one.changes]
    assert {"gpus": 1} in changes
    one, two, many = expected_starts(
        user=alice,
        requests=[job_request(vision, device={"gpus": gpus}) for gpus in (1, 2, 64)],
    )
    assert one.at_once and one.estimate is None
    assert not two.at_once and two.estimate.expected == found.estimate.expected
    assert not many.at_once and many.estimate is None and many.code == "impossible"


def test_the_answer_of_somebody_who_needs_a_yes_says_the_rest_too(alice, vision):
    a_node("n1")
    project_share_set(project=vision, actor="root", approval_units=0)
    found = foreseen(alice, vision)
    assert found.verdict is DryRunVerdict.APPROVAL
    assert found.approval.code == "approval" and found.devices and found.reason is None


def test_a_question_is_refused_as_its_submit_would_be(alice, vision):
    a_node("n1")
    with pytest.raises(Refused, match="project_unknown"):
        dry_run(user=a_user("vera"), request=job_request(vision))
    with pytest.raises(Refused, match="after_unknown"):
        foreseen(alice, vision, after=["J-404"])
    vision.max_pending = 1
    vision.save()
    a_job(alice, vision, begin_at="+2h")
    with pytest.raises(Refused, match="pending_limit"):
        foreseen(alice, vision)


def test_rest_answers_a_dry_run_with_the_same(alice, vision):
    node = a_node("n1")
    api = APIClient()
    api.force_authenticate(alice)

    def ask(**fields):
        body = a_request(vision, **fields)
        return api.post("/api/v1/jobs?dry_run=true", body, format="json").json()

    now = ask(device={"gpus": 1})
    assert now["possible"] and now["verdict"] == "now" and now["reason"] is None
    (device,) = now["placement"]
    assert (device["node"], device["gpu"], device["kind"], device["units"]) == ("n1", 0, "gpu", GPU)
    assert (now["units"], now["gpu_hours"]) == (GPU, "1.0000")
    (limit,) = now["limits"]
    assert (limit["of"], limit["used"], limit["would_be"]) == ("quota", 0, GPU)
    a_job(alice, vision, device={"gpus": 1})
    settle(node)
    wait = ask(device={"gpus": 1})
    assert wait["verdict"] == "wait" and wait["reason"]["code"] == "resources"
    assert wait["placement"] == [] and wait["estimate"] is None
    assert wait["no_estimate"]["code"] == "nothing" and wait["no_estimate"]["sentence"]
    never = ask(device={"gpus": 9})
    assert (never["possible"], never["verdict"]) == (False, "never")
    assert never["alternatives"][0]["changes"]
    assert Job.objects.exclude(status=JobStatus.RUNNING).count() == 0


def test_the_page_says_what_is_left_of_quota_and_budget(client, alice, vision):
    a_node("n1")
    client.force_login(alice)
    form = {
        **{"project": "vision", "name": "probe", "image": "tessera-example:latest"},
        **{"command": "true", "amount": "2g.35gb", "replicas": "1", "gpus": "1"},
        **{"time_limit": "30m", "cpu": "1", "memory": "1GiB", "key": "once"},
        **{"topology": "best", "launcher": "none", "priority": "normal", "env": ""},
    }
    text = client.post("/request/preview", form).content.decode()
    assert "0.29 of 4 GPU held by project vision after this" in text
    budget = {"starts_at": ago(days=1), "ends_at": ahead(days=1), "actor": "root"}
    budget_add(project=vision, limit_unit_seconds=10 * GPU * HOUR, **budget)
    text = client.post("/request/preview", form).content.decode()
    assert "At most 0.15 of 10 GPU-hours used by project vision after this; 9.85 left" in text
    vision.quotas.all().delete()
    vision.budgets.all().delete()
    project_share_set(project=vision, actor="root", weight=2)
    text = client.post("/request/preview", form).content.decode()
    assert "vision has no quota and no budget" in text


def test_page_and_rest_show_the_same_start(client, alice, vision):
    a_node("n1", gpus=2)
    client.force_login(alice)
    form = {
        **{"project": "vision", "name": "probe", "image": "tessera-example:latest"},
        **{"command": "python train.py", "amount": "gpus", "gpus": "1", "replicas": "2"},
        **{"launcher": "torchrun", "env": "HF_TOKEN=hf_123", "key": "once"},
        "containers": "per-replica",
    }
    text = client.post("/request/preview", form).content.decode()
    assert "What runs" in text and "torch.distributed.run train.py" in text
    assert "Replica 1 on n1" in text
    api = APIClient()
    api.force_authenticate(alice)
    body = a_request(vision, device={"gpus": 1}, replicas=2, launcher="torchrun")
    body |= {"command": ["python", "train.py"], "env": {"HF_TOKEN": "hf_123"}}
    body |= {"containers": "per-replica"}
    launch = api.post("/api/v1/jobs?dry_run=true", body, format="json").json()["launch"]
    assert launch["command"] == ["python", "-m", "torch.distributed.run", "train.py"]
    assert [(each["rank"], each["node"]) for each in launch["replicas"]] == [(0, "n1"), (1, "n1")]
    assert "hf_123" not in str(launch)


def test_a_share_beside_those_of_another_user_is_warned_of(alice, vision):
    node = a_node("n1", gpus=1)
    share = {"mps": {"threads": 25, "memory": "8GiB"}, "isolation": "any"}
    assert foreseen(alice, vision, device=share, memory="4GiB").warnings == ()
    bob = a_user("bob")
    Membership.objects.create(project=vision, user=bob, role=Role.MEMBER)
    a_job(bob, vision, device=share)
    settle(node)
    (warning,) = foreseen(alice, vision, device=share, memory="4GiB").warnings
    assert (warning.field, warning.combination) == ("device", "neighbours_on_mps")
