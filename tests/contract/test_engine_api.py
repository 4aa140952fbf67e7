"""An agent and its doctor use every engine whose API they share, at one version."""

import os
import re
import sys
import threading
from contextlib import ExitStack

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import RuntimeKind
from agents.doctor.machine import RealMachine
from agents.facts.images import WantedImage
from agents.runtime.base import ContainerPhase, RuntimeFailure
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_engine import negotiated_api
from portal.demo import runtime_choice
from tests.contract.replicas import DEVICE, Watch, a_replica, go, meeting_of, whole_log
from tests.support.engine_stand_in import EngineStandIn, engine_stand_in

RANGES = [("1.44", "1.52", "1.44"), ("1.40", "1.41", "1.41"), ("1.48", "1.60", "1.48")]


@pytest.fixture
def standing(monkeypatch):
    """Starts the stand-in for the rest of the test; DOCKER_HOST names it."""
    with ExitStack() as stack:

        def start(oldest, newest, **info):
            engine = EngineStandIn(oldest, newest, **info)
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(engine_stand_in(engine)))
            return engine

        yield start


@pytest.mark.parametrize(("oldest", "newest", "used"), RANGES)
def test_a_replica_runs_on_an_engine_that_serves_only_some_versions(
    standing, tmp_path, oldest, newest, used
):
    engine = standing(oldest, newest)
    runtime = DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    watch = Watch(runtime)
    replica = a_replica()
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0
    assert whole_log(runtime, replica.id) == b"hello from the stand-in\n"
    runtime.stop(replica.id, 1)
    runtime.remove(replica.id)
    runtime.tidy()
    runtime.close()
    assert (engine.containers, engine.networks) == ({}, {})
    assert {path.split("/")[1] for path in engine.paths} == {"version", f"v{used}"}


@pytest.mark.parametrize(("oldest", "newest", "used"), RANGES)
def test_the_doctor_uses_the_version_that_the_agent_uses(standing, tmp_path, oldest, newest, used):
    standing(oldest, newest)
    runtime = DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    machine = RealMachine(tmp_path, RuntimeKind.DOCKER, None, simulated=True)
    assert machine.engine_api == runtime.api
    assert machine.engine_api.used == used
    assert machine.engine["ServerVersion"] == "stand-in"
    runtime.close()


@pytest.mark.parametrize(
    ("oldest", "newest", "words"),
    [
        ("1.24", "1.39", "is too old (it has API 1.24 to 1.39, this agent 1.40 to 1.52)"),
        ("1.53", "1.60", "is too new (it has API 1.53 to 1.60, this agent 1.40 to 1.52)"),
    ],
)
def test_an_engine_with_no_version_in_common_is_refused_by_both_in_the_same_words(
    standing, tmp_path, oldest, newest, words
):
    standing(oldest, newest)
    with pytest.raises(RuntimeFailure) as failure:
        DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    machine = RealMachine(tmp_path, RuntimeKind.DOCKER, None, simulated=True)
    assert machine.engine is None
    assert words in failure.value.sentence
    assert machine.engine_failure == failure.value.sentence


@pytest.mark.parametrize("version", [{}, {"ApiVersion": "new"}, {"ApiVersion": None}])
def test_an_engine_that_reports_no_version_is_refused_in_a_sentence(version):
    with pytest.raises(RuntimeFailure, match="reports no API version"):
        negotiated_api(version)


@pytest.mark.parametrize(("oldest", "newest"), [("1.44", "1.52"), ("1.40", "1.41")])
def test_the_demonstration_uses_every_engine_too(standing, tmp_path, monkeypatch, oldest, newest):
    engine = standing(oldest, newest)
    builder = tmp_path / "build_image.py"
    builder.write_text("")
    monkeypatch.setattr(runtime_choice, "BUILD_IMAGE", builder)
    choice = runtime_choice.choose_runtime(os.environ)
    assert (choice.kind, engine.containers) == ("docker", {}), choice.reason


def test_versions_are_compared_as_numbers():
    assert negotiated_api({"ApiVersion": "1.100", "MinAPIVersion": "1.9"}).used == "1.44"


def test_a_phase_is_read_on_every_version(standing, tmp_path):
    standing("1.44", "1.52")
    runtime = DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    replica = a_replica()
    runtime.prepare(replica, ())
    assert runtime.containers()[replica.id].phase is ContainerPhase.CREATED
    runtime.close()


@pytest.mark.parametrize(
    ("info", "requested", "visible"),
    [
        ({"Runtimes": {"nvidia": {}}}, ("nvidia", None), DEVICE),
        (
            {"CDISpecDirs": ["/etc/cdi"]},
            (None, {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={DEVICE}"]}),
            "void",
        ),
        ({}, (None, {"Driver": "nvidia", "DeviceIDs": [DEVICE]}), DEVICE),
    ],
    ids=["runtime", "cdi", "request"],
)
@pytest.mark.parametrize(("oldest", "newest"), [("1.44", "1.52"), ("1.40", "1.41")])
def test_the_engine_is_asked_for_a_device_in_the_way_that_it_has(
    standing, tmp_path, oldest, newest, info, requested, visible
):
    engine = standing(oldest, newest, **info)
    (tmp_path / "nvidia-ctk").touch()
    policy = NodePolicy(nvidia_ctk=str(tmp_path / "nvidia-ctk"))
    runtime = DockerRuntime(tmp_path / "logs", "node", policy)
    replica = a_replica()
    runtime.prepare(replica, (DEVICE,))
    (container,) = engine.containers.values()
    host = container["HostConfig"]
    found = (host.get("DeviceRequests") or [None])[0]
    kept = {key: found[key] for key in ("Driver", "DeviceIDs")} if found else None
    assert (host.get("Runtime"), kept) == requested
    env = dict(entry.split("=", 1) for entry in container["Config"]["Env"])
    assert (env["TESSERA_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]) == (DEVICE, visible)
    assert "CUDA_VISIBLE_DEVICES" not in env
    runtime.close()


def test_few_calls_come_before_the_start_of_a_container(standing, tmp_path):
    """Each call is a millisecond or more of what a job waits for."""
    engine = standing("1.44", "1.52")
    runtime = DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    first, replica = a_replica(), a_replica()
    go(runtime, first)  # makes the bridge that the next one uses
    Watch(runtime).ended(first)
    runtime.remove(first.id)
    del engine.paths[:]
    runtime.require_image(WantedImage(replica.image))
    runtime.prepare(replica, ())
    meeting = meeting_of(runtime, [replica])
    before = len(engine.paths)
    runtime.start(replica, (), meeting)
    runtime.close()
    verbs = [re.sub(r"/v[0-9.]+|/[0-9a-f]{64}", "", path) for path in engine.paths]
    assert verbs[:before] == [
        f"GET /images/{replica.image}/json",
        "GET /containers/json",
        "GET /containers/json",
        "POST /containers/create",
        "GET /containers/json",
        "GET /containers/json",
    ]
    assert verbs[before : before + 3] == [
        "GET /containers/json",
        "GET /containers/json",
        "POST /containers/start",
    ]


def test_containers_may_be_listed_while_another_thread_meets_one_that_has_ended(
    standing, tmp_path, monkeypatch
):
    """The loop and the shipping of logs both list them. What is kept of ended ones is shared."""
    standing("1.44", "1.52")
    runtime = DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    ended = {"State": {"ExitCode": 0}}
    monkeypatch.setattr(runtime.client.api, "inspect_container", lambda _: ended)
    monkeypatch.setattr(runtime, "_summaries", lambda: [])
    errors, is_over = [], threading.Event()

    def meet_ended():
        try:
            for number in range(20_000):
                runtime._ends.read(f"c-{number}")
        except (KeyError, RuntimeError) as error:
            errors.append(error)
        finally:
            is_over.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=meet_ended)
    try:
        other.start()
        while not is_over.is_set():
            runtime.containers()
    finally:
        other.join()
        sys.setswitchinterval(before)
    runtime.close()
    assert errors == []
