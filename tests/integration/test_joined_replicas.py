"""Replicas of a gang on one node share a container, from the request to its use."""

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.documents import DesiredReplicaState
from portal.allocations.models import Allocation
from portal.desired.documents import compile_desired
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.querysets import gang_filter
from portal.planning.planner_input import planner_input
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.cli_runner import Person
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
GPU = 56_000
GANG = {
    "launcher": "torchrun",
    "device": {"gpus": 1},
    "replicas": 4,
    "cpu": 2,
    "memory": "8GiB",
    "shm": "1GiB",
    "disk": "10GiB",
}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice, gpus=8)


def node_of(name, gpus):
    node = a_node(name, gpus=gpus)
    node.disk_mib = 1_000_000
    node.report()
    return node


def replicas_of(job):
    return list(job.attempts.latest("number").replicas.order_by("rank"))


def test_one_container_has_the_devices_the_processes_and_the_host_share_of_all(alice, vision):
    node = node_of("n1", 4)
    job = a_job(alice, vision, **GANG)
    settle(node)
    (row,) = replicas_of(job)
    (replica,) = node.hear().replicas
    assert (replica.world, replica.rank, replica.processes) == (1, 0, 4)
    assert {device.gpu_uuid for device in replica.devices} == {node.uuid(n) for n in range(4)}
    host = (replica.cpu_milli, replica.memory_mib, replica.shm_mib, replica.disk_mib)
    assert host == (8_000, 32 << 10, 4 << 10, 40 << 10)
    # It meets nobody.
    assert (replica.wish, replica.rendezvous) == (DesiredReplicaState.RUN, None)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    held = Allocation.objects.filter(replica=row)
    assert [each.units for each in held] == [GPU] * 4
    assert sorted(each.cpu_milli for each in held) == [0, 0, 0, 8_000]


def test_its_end_is_the_end_of_the_job_and_gives_everything_back(alice, vision):
    node = node_of("n1", 4)
    job = a_job(alice, vision, **GANG)
    settle(node)
    node.finish()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED
    assert set(Allocation.objects.values_list("status", flat=True)) == {"released"}
    assert held_cpu("n1") == 0


def snapshot():
    return planner_input(now=timezone.now(), policy=Policy())


def held_cpu(name):
    (node,) = (each for each in snapshot().nodes if each.name == name)
    return node.cpu_total_milli - node.cpu_free_milli


def test_the_planner_sees_the_replicas_of_the_request_and_what_they_hold(alice, vision):
    settle(node_of("n1", 4))
    a_job(alice, vision, **GANG)
    plan_once()
    (run,) = snapshot().running
    assert [each.rank for each in run.replicas] == [0, 1, 2, 3]
    assert {len(each.devices) for each in run.replicas} == {1}
    assert held_cpu("n1") == 8_000


def test_over_two_nodes_each_has_one_container_and_they_meet_as_a_gang(alice, vision):
    one, two = node_of("n1", 2), node_of("n2", 2)
    job = a_job(alice, vision, **GANG, topology="any")
    settle(one, two)
    assert [row.node.name for row in replicas_of(job)] == ["n1", "n2"]
    told = [replica for node in (one, two) for replica in node.hear().replicas]
    assert [(each.world, each.processes, len(each.devices)) for each in told] == [(2, 2, 2)] * 2
    assert {each.wish for each in told} == {DesiredReplicaState.RUN}
    assert all(len(each.rendezvous.peers) == 2 for each in told)


@pytest.mark.parametrize(
    "fields", [{"containers": "per-replica"}, {"launcher": "none"}, {"device": {"mig": "2g.35gb"}}]
)
def test_apart_where_the_request_wants_it_or_the_ranks_cannot_share(alice, vision, fields):
    node = node_of("n1", 4)
    job = a_job(alice, vision, **GANG | fields)
    settle(node)
    assert len(replicas_of(job)) == 4
    assert {(each.world, each.processes) for each in node.hear().replicas} == {(4, 1)}


def test_who_means_the_world_reads_what_was_placed(alice, vision):
    """Not what the job asks for; but of an attempt of before that was written."""
    node = node_of("n1", 4)
    job = a_job(alice, vision, **GANG | {"containers": "per-replica"})
    settle(node)
    (attempt,) = job.attempts.all()
    Job.objects.filter(pk=job.pk).update(replica_count=1)
    job.refresh_from_db()
    assert job.attempts.get().world == 4
    assert Attempt.objects.filter(gang_filter()).exists()
    assert {each.world for each in compile_desired(node.row).replicas} == {4}
    Attempt.objects.filter(pk=attempt.pk).update(replica_count=None)
    assert job.attempts.get().world == 1
    assert not Attempt.objects.filter(gang_filter()).exists()
    assert {each.world for each in compile_desired(node.row).replicas} == {1}


def test_a_retry_is_joined_by_its_own_place(alice, vision):
    """The first attempt has one node; the second, after that is cordoned, two."""
    first = node_of("n1", 4)
    job = a_job(alice, vision, **GANG, topology="any", retries={"user": 1})
    settle(first)
    first.row.schedulable = False
    first.row.save(update_fields=["schedulable"])
    others = node_of("n2", 2), node_of("n3", 2)
    first.finish(exit_code=1)
    settle(first, *others)
    sizes = job.attempts.order_by("number").values_list("replica_count", "joined_replicas")
    assert list(sizes) == [(4, 4), (4, 2)]
    assert Replica.objects.filter(attempt__job=job).count() == 3


def test_page_rest_and_command_line_tell_it(alice, vision, tmp_path):
    settle(node_of("n1", 4))
    rest, page = APIClient(), Client()
    rest.force_authenticate(alice)
    page.force_login(alice)
    body = a_request(vision, **GANG)
    answer = rest.post("/api/v1/jobs?dry_run=true", body, format="json").json()
    sentence = "Each container runs 4 of the 4 replicas"
    assert answer["launch"]["joined_replicas"] == 4
    assert answer["launch"]["sharing"].startswith(sentence)
    assert answer["launch"]["environment"]["PET_NPROC_PER_NODE"] == "4"
    form = {"project": "vision", "name": "sum", "image": "tessera-example:latest", "key": "once"}
    form |= {"command": "python sum.py", "amount": "gpus", "gpus": "1", "replicas": "4"}
    shown = page.post("/request/preview", form | {"launcher": "torchrun"}).content.decode()
    assert sentence in shown and "Container 0 on n1" in shown
    shell = Person(alice, tmp_path)
    words = ("--project", "vision", "--image", "i", "--gpus", "1", "--replicas", "4")
    words += ("--launcher", "torchrun", "--dry-run", "--", "python", "sum.py")
    assert sentence in " ".join(shell.output("submit", *words).split())
    assert sentence not in shell.output("submit", "--containers", "per-replica", *words)
    job = a_job(alice, vision, **GANG)
    plan_once()
    assert sentence in page.get(f"/jobs/{job.label}/").content.decode()
    (attempt,) = rest.get(f"/api/v1/jobs/{job.label}").json()["attempts"]
    assert (attempt["joined_replicas"], len(attempt["replicas"])) == (4, 1)
    assert "Attempt 1, 4 replicas in each container" in shell.output("show", job.label)
