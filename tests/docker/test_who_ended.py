"""From the container to the job: one that saves its work on SIGTERM and exits with 0, because its
engine, its node or its lease ended, is tried again and never booked as done."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from django.utils import timezone

from agents.contract.documents import read_desired
from agents.drill.docker_node import DrillRuntime, remove_all
from agents.drill.docker_script import COMPLETE_LOG, PROGRAM
from agents.drill.node import DrillNode
from agents.host.machine_ids import boot_seconds
from agents.simdriver.install import uninstall
from portal.agentapi.node_report import node_report
from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus, NodeStatus
from scheduler.tasks import plan_once
from tests.docker.own_engine import OwnEngine
from tests.environment.docker_engine import engine_client
from tests.support.rows import a_job, a_project, a_user

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    # The SDK leaves the socket of a request that got no answer to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SECONDS = 300
LEASE_SECONDS = 300.0


class ManagedNode(DrillNode):
    """A node on the test's engine, and its row in the portal."""

    def __init__(self, home: Path, engine: OwnEngine) -> None:
        row = Node.objects.create(name="gpu01", status=NodeStatus.ONLINE)
        super().__init__(home, str(row.pk))
        self.row, self.engine = row, engine

    def new_runtime(self) -> DrillRuntime:
        return DrillRuntime(self.home / "logs", self.name, self.policy)

    def reboot(self) -> None:
        """Agents started from now on find another boot id."""
        self.boots += 1

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
        node_drive(node_id=self.row.pk)
        self.row.refresh_from_db()
        if self.row.desired:
            document = read_desired(self.row.desired)
            if document != loop.desired:
                assert loop.accept(document)
        loop.renew_lease(boot_seconds() + LEASE_SECONDS)
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
        with engine_client(self.engine.base_url) as client:
            found = client.containers.list(all=True, filters={"status": "exited"})
            return {each.attrs["State"]["ExitCode"] for each in found}

    def end(self) -> None:
        self.kill()
        with engine_client(self.engine.base_url) as client:
            remove_all(client, self.name)
        self._drop_journal()
        uninstall()


@pytest.fixture
def node(engine, tmp_path, monkeypatch) -> Iterator[ManagedNode]:
    monkeypatch.setenv("DOCKER_HOST", engine.base_url)
    node = ManagedNode(tmp_path / "node", engine)
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


def test_a_host_that_shuts_down_in_order_and_boots(node, engine, job):
    """The agent first, then the engine with its containers, as systemd orders them."""
    node.loop.stop()
    node.kill()
    engine.down()
    node.reboot()
    engine.start()
    assert node.exit_codes() == {0}
    require_retry(node, job, "node_restarted")


def test_power_loss(node, engine, job):
    node.kill()
    engine.lose_power()
    node.reboot()
    engine.start()
    assert node.exit_codes() == {255}
    require_retry(node, job, "node_restarted")


def test_a_job_that_is_done_while_no_agent_runs_is_done(node, engine):
    alice = a_user()
    fields = {"command": ["sh", "-c", "echo start; sleep 2"], "cpu": 0.5, "memory": "64MiB"}
    job = a_job(alice, a_project("vision", alice), **fields)
    node.until(lambda: status_of(job) == JobStatus.RUNNING)
    node.kill()
    with engine_client(engine.base_url) as client:
        label = {"label": f"tessera.node={node.name}"}
        (container,) = client.containers.list(all=True, filters=label)
        assert container.wait()["StatusCode"] == 0
    node.until(lambda: status_of(job) == JobStatus.SUCCEEDED)
