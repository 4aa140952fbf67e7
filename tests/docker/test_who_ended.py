"""From the container to the job: one that saves its work on SIGTERM and exits with 0, because its
engine, its node or its lease ended, is tried again and never booked as done."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import docker
import pytest
from django.utils import timezone

import agents.loop.node
from agents.admission.policy import NodePolicy
from agents.contract.documents import read_desired
from agents.drill.docker_node import DrillRuntime, remove_all
from agents.drill.docker_script import COMPLETE_LOG, PROGRAM
from agents.drill.node import DrillNode
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.loop.workers import InlineWorkers
from agents.nvml.session import Nvml
from agents.simdriver.install import uninstall
from agents.state.journal import Journal
from docs.examples.build_image import build_image
from portal.agentapi.node_report import node_report
from portal.inventory.models import Node
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus, NodeStatus
from scheduler.driver import drive
from scheduler.tasks import plan_once
from tests.docker.own_engine import OwnEngine, own_engine
from tests.environment import debian
from tests.environment.docker_engine import OLDEST_API
from tests.environment.levels import skip_without
from tests.support.rows import a_job, a_project, a_user

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    # The SDK leaves the socket of a request that got no answer to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SECONDS = 120
LEASE_SECONDS = 300.0


class ManagedNode(DrillNode):
    """A node on the test's engine, and its row in the portal."""

    def __init__(self, home: Path, engine: OwnEngine, policy: NodePolicy) -> None:
        row = Node.objects.create(name="gpu01", status=NodeStatus.ONLINE)
        super().__init__(home, str(row.pk))
        self.row, self.engine, self.policy = row, engine, policy

    def start_agent(self) -> NodeLoop:
        self._drop_journal()
        self.journal = Journal(self.home / "journal.sqlite3")
        self.runtime = DrillRuntime(self.home / "logs", self.name, self.policy)
        self.loop = NodeLoop(
            self.name,
            self.journal,
            Hardware(Nvml(), self.runtime, self.home, simulated=True, policy=self.policy),
            self.runtime,
            self.policy,
            self.reported.append,
            new_workers=InlineWorkers,
        )
        return self.loop

    def kill(self) -> None:
        """The agent ends, and what it has open is closed."""
        super().kill()
        if self.runtime is not None:
            self.runtime.close()
            self.runtime = None

    def sync(self) -> None:
        """One call to the portal, and a round."""
        loop = self.loop or self.start_agent()
        plan_once()
        drive(node_id=self.row.pk)
        self.row.refresh_from_db()
        if self.row.desired:
            document = read_desired(self.row.desired)
            if document != loop.desired:
                assert loop.accept(document)
        loop.renew_lease(agents.loop.node._boot_seconds() + LEASE_SECONDS)
        loop.hardware.refresh()
        loop.round()
        rows = Node.objects.filter(pk=self.row.pk)
        rows.update(applied_revision=loop.desired.revision, last_seen_at=timezone.now())
        node_report(self.row.pk, self.reported[-1])

    def until(self, is_so: Callable[[], bool]) -> None:
        end = monotonic() + SECONDS
        while not is_so():
            assert monotonic() < end, self.reported[-1].replicas
            self.sync()

    def exit_codes(self) -> set[int]:
        """Of the containers that have ended, from the engine."""
        client = docker.DockerClient(base_url=self.engine.base_url, version=OLDEST_API)
        try:
            found = client.containers.list(all=True, filters={"status": "exited"})
            return {each.attrs["State"]["ExitCode"] for each in found}
        finally:
            client.close()

    def end(self) -> None:
        self.kill()
        client = docker.DockerClient(base_url=self.engine.base_url, version=OLDEST_API)
        remove_all(client, self.name)
        client.close()
        self._drop_journal()
        uninstall()


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    skip_without(debian.DOCKERD)
    if reason := debian.why_not("docker"):
        pytest.skip(reason)
    with own_engine() as own:
        own.start()
        build_image(own.base_url)
        yield own


@pytest.fixture
def boots(monkeypatch) -> list[str]:
    """The boot ids of the node; the last one is the present one's."""
    ids = ["boot-1"]
    monkeypatch.setattr(agents.loop.node, "boot_id", lambda: ids[-1])
    return ids


@pytest.fixture
def node(engine, tmp_path, monkeypatch, boots) -> Iterator[ManagedNode]:
    monkeypatch.setenv("DOCKER_HOST", engine.base_url)
    policy = NodePolicy(on_lease_end="stop", pull_tries=1)
    node = ManagedNode(tmp_path / "node", engine, policy)
    node.start_agent()
    yield node
    node.end()
    gc.collect()  # the sockets that the SDK leaks, while we ignore them


@pytest.fixture
def job(node) -> Job:
    """It runs, and has written its first line."""
    alice = a_user()
    command = ["sh", "-c", PROGRAM]
    fields = {"command": command, "cpu": 0.5, "memory": "64MiB"}
    job = a_job(alice, a_project("vision", alice), **fields, retries={"infrastructure": 2})
    node.until(lambda: status_of(job) == JobStatus.RUNNING)
    (replica,) = node.reported[-1].replicas
    node.until(lambda: node.runtime.log(replica.id, 0, 100) == b"start\n")
    return job


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def require_retry(node: ManagedNode, job: Job, code: str) -> None:
    """The first attempt failed with `code`, and the next one runs."""
    node.until(lambda: job.attempts.count() == 2 and status_of(job) == JobStatus.RUNNING)
    first = job.attempts.earliest("number")
    assert first.first_failure["code"] == code
    assert first.replicas.get().status == "failed"
    assert (job.infrastructure_retries_left, job.user_retries_left) == (1, 0)


def test_an_engine_that_is_restarted_under_an_agent(node, engine, job):
    engine.down()
    engine.start()
    assert node.exit_codes() == {0}, "it saved its work and ended well"
    require_retry(node, job, "engine_restarted")


def test_an_engine_that_is_restarted_while_no_agent_runs(node, engine, job):
    node.kill()
    engine.down()
    engine.start()
    assert node.exit_codes() == {0}
    require_retry(node, job, "engine_restarted")


def test_the_end_of_the_lease_before_the_agent_is_shut_down_in_order(node, job):
    (replica,) = node.reported[-1].replicas
    node.journal.store_fact("lease", f"{node.loop.boot_id} 0.0")
    node.kill()
    node.start_agent().round()
    assert node.runtime.log(replica.id, 0, 100) == COMPLETE_LOG
    node.loop.stop()
    node.kill()
    assert node.exit_codes() == {0}
    require_retry(node, job, "lease_over")


def test_a_host_that_shuts_down_in_order_and_boots(node, engine, boots, job):
    """The agent first, then the engine with its containers, as systemd orders them."""
    node.loop.stop()
    node.kill()
    engine.down()
    boots.append("boot-2")
    engine.start()
    assert node.exit_codes() == {0}
    require_retry(node, job, "node_restarted")


def test_power_loss(node, engine, boots, job):
    node.kill()
    engine.lose_power()
    boots.append("boot-2")
    engine.start()
    assert node.exit_codes() == {255}
    require_retry(node, job, "node_restarted")


def test_a_job_that_is_done_while_no_agent_runs_is_done(node, engine):
    alice = a_user()
    fields = {"command": ["sh", "-c", "echo start; sleep 2"], "cpu": 0.5, "memory": "64MiB"}
    job = a_job(alice, a_project("vision", alice), **fields)
    node.until(lambda: status_of(job) == JobStatus.RUNNING)
    node.kill()
    client = docker.DockerClient(base_url=engine.base_url, version=OLDEST_API)
    (container,) = client.containers.list(all=True, filters={"label": f"tessera.node={node.name}"})
    assert container.wait()["StatusCode"] == 0
    client.close()
    node.until(lambda: status_of(job) == JobStatus.SUCCEEDED)
