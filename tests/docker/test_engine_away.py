"""An engine that falls silent, or is started again, while replicas run: nothing is told as lost or
ended that is not, and nothing runs twice."""

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from docker.transport import UnixHTTPAdapter
from requests import PreparedRequest, Response

from agents.admission.policy import NodePolicy
from agents.contract.documents import ReplicaState
from agents.drill.docker_node import DrillRuntime, remove_all, run_id
from agents.drill.docker_script import docker_script
from agents.drill.node import DrillNode
from agents.drill.threaded_kill_points import ThreadedKillSwitch, client_kill_points
from agents.runtime.base import RuntimeFailure
from agents.simdriver.install import uninstall
from docs.examples.build_image import IMAGE
from tests.docker.own_engine import OwnEngine
from tests.environment.docker_engine import engine_client

pytestmark = [
    pytest.mark.docker,
    # The SDK leaves the socket of a request that got no answer to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ALIVE = {ReplicaState.PREPARING, ReplicaState.READY, ReplicaState.RUNNING}
RUNNING = ReplicaState.RUNNING
SECONDS = 300
FROZEN_SECONDS = 0.1


class Freezing(ThreadedKillSwitch):
    """Freezes the engine once, before the request that is called `at_call` is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.engine: OwnEngine | None = None
        self.at_call = ""

    def point(self, where: str) -> None:
        if self.engine and where == f"before {self.at_call}":
            engine, self.engine = self.engine, None
            engine.freeze()


class Node(DrillNode):
    """One node on the engine that may be away; `containers` come from the engine itself."""

    def __init__(self, home: Path, engine: OwnEngine) -> None:
        super().__init__(home, f"n{uuid4().hex[:7]}")
        self.engine = engine
        self.fuse = Freezing()
        fifth = docker_script(self.name, self.gpu, IMAGE)[4]
        self.run = fifth.desired  # `r-long` alone, beside an idle slice

    def new_runtime(self) -> DrillRuntime:
        with client_kill_points(self.fuse, []):
            return DrillRuntime(self.home / "logs", self.name, NodePolicy())

    def rounds(self) -> None:
        """Rounds as the loop takes them: one that fails is told, and another follows."""
        for _ in range(3):
            try:
                self.round(self.run)
            except RuntimeFailure:
                continue

    def until(self, state: ReplicaState) -> None:
        """Rounds until the replica is told as `state`: what the engine and the log copies do
        beside them takes its time."""
        end = time.monotonic() + SECONDS
        self.round(self.run)
        while self.states()[-1] != {"r-long": state}:
            assert time.monotonic() < end, f"not {state}: {self.journal.failures()}"
            self.round(self.run)

    def states(self) -> list[dict[str, ReplicaState]]:
        return [{r.id: r.state for r in document.replicas} for document in self.reported]

    def containers(self) -> list[str]:
        """The status and the run id of each."""
        with engine_client(self.engine.base_url) as client:
            found = client.containers.list(all=True, filters={"label": "tessera.node"})
            return [f"{c.status} {run_id(c)}" for c in found]

    def end(self) -> None:
        if self.runtime is not None:
            self.runtime.close()
        with engine_client(self.engine.base_url) as client:
            remove_all(client, self.name)
        self._drop_journal()
        uninstall()


def hasty(engine: OwnEngine) -> Callable[..., Response]:
    """A request that a frozen engine will never answer is given up soon; any other has the time
    that the agent gives it, however busy this machine is."""

    def send(self: UnixHTTPAdapter, request: PreparedRequest, **options: Any) -> Response:
        if engine.is_frozen:
            options["timeout"] = FROZEN_SECONDS
        return super(UnixHTTPAdapter, self).send(request, **options)

    return send


@pytest.fixture
def node(engine, tmp_path, monkeypatch) -> Iterator[Node]:
    monkeypatch.setenv("DOCKER_HOST", engine.base_url)
    monkeypatch.setattr(UnixHTTPAdapter, "send", hasty(engine), raising=False)
    node = Node(tmp_path / "node-away", engine)
    yield node
    engine.thaw()
    node.end()
    gc.collect()  # the sockets that the SDK leaks, while we ignore them


def test_a_silent_engine_ends_nothing_and_loses_nothing(node, engine):
    node.until(RUNNING)
    before = node.containers()
    engine.freeze()
    node.rounds()
    engine.thaw()
    node.until(RUNNING)
    assert node.containers() == before
    assert all(set(states.values()) <= ALIVE for states in node.states())


@pytest.mark.parametrize(
    "call",
    [
        "GET containers/json",
        "POST networks/create",
        "POST containers/create",
        "POST containers/*/start",
        "GET containers/*/json",
    ],
)
def test_an_engine_that_falls_silent_at_a_call_starts_the_replica_once(node, engine, call):
    node.fuse.engine, node.fuse.at_call = engine, call
    node.rounds()
    assert node.fuse.engine is None, "the call was never made"
    engine.thaw()
    node.until(RUNNING)
    (there,) = node.containers()
    assert there.endswith(" 0")
    assert node.journal.failures() == {}
    assert all(set(states.values()) <= ALIVE for states in node.states())


@pytest.mark.slow
def test_what_lives_through_a_restart_of_the_engine_is_adopted(node, engine):
    engine.down()
    engine.live_restore = True
    engine.start()
    node.until(RUNNING)
    before = node.containers()
    engine.down()
    node.rounds()
    engine.start()
    node.until(RUNNING)
    assert node.containers() == before
    assert all(set(states.values()) <= ALIVE for states in node.states())


@pytest.mark.slow
def test_what_ends_with_its_engine_has_failed_by_it_and_is_not_started_again(node, engine):
    engine.down()
    engine.live_restore = False
    engine.start()
    node.until(RUNNING)
    engine.down()
    node.rounds()
    assert all(set(states.values()) <= ALIVE for states in node.states()), "nobody can know yet"
    engine.start()
    node.until(ReplicaState.FAILED)
    assert node.journal.failures()["r-long"].code == "engine_restarted"
    (there,) = node.containers()
    assert there.startswith("exited ")
    assert there.endswith(" 0")
