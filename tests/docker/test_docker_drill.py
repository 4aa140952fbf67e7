"""The crash drill on a real engine: an agent that ends at any of its calls finds its way back."""

import json
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from agents.drill import docker_crash
from agents.drill.docker_crash import docker_drill, run_docker_drill
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_network import Networks
from agents.simdriver.install import uninstall
from docs.examples.build_image import IMAGE

EVERY = 97  # a prime: the points are spread over all acts and over every kind of call
pytestmark = [
    pytest.mark.docker,
    # Threads of an agent that is killed end by SystemExit, on purpose.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
# Made by everything that `docker_script` does.
CALLS = {
    "GET info",
    "GET containers/json",
    "GET containers/*/json",
    "GET containers/*/logs",
    "GET images/*/json",
    "GET networks",
    "POST images/create",
    "POST networks/create",
    "POST containers/create",
    "POST containers/*/rename",
    "POST containers/*/start",
    "POST containers/*/stop",
    "POST containers/*/wait",
    "DELETE containers/*",
    "DELETE networks/*",
}


@pytest.fixture(autouse=True)
def engine(docker_engine, docker_image, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker_engine)
    yield
    uninstall()


def things(base_url: str) -> set[str]:
    client = docker.DockerClient(base_url=base_url, version="1.41")
    try:
        found = [*client.containers.list(all=True), *client.networks.list(), *client.volumes.list()]
        return {thing.id for thing in found}
    finally:
        client.close()


@pytest.mark.slow
def test_an_agent_that_ends_at_any_engine_call_finds_its_way_back(docker_engine):
    before = things(docker_engine)
    report = docker_drill(image=IMAGE, every=EVERY, workers=2)
    assert report.points > 4
    assert report.is_good, report.worst
    assert report.max_rounds <= 3
    assert things(docker_engine) <= before


@pytest.mark.slow
def test_the_script_passes_every_kind_of_engine_call_before_and_after(tmp_path):
    outcome, points = run_docker_drill(tmp_path, "dcalls", IMAGE, None)
    assert outcome.converged, outcome.stuck
    calls = [name for name in points.values() if "journal" not in name]
    said = {name.partition(" before ")[2] for name in calls} - {""}
    answered = {name.partition(" after ")[2] for name in calls} - {""}
    assert said >= CALLS
    assert said == answered


def test_the_drill_tells_of_a_container_that_is_gone_before_its_successor_is_there(
    tmp_path, monkeypatch
):
    """As the runtime did once: an agent that ended in between lost the replica."""

    def hasty(runtime, found, replica, devices, meeting):
        for container in found:
            container.remove()
        return runtime._create(replica, devices, meeting)

    monkeypatch.setattr(DockerRuntime, "_matching_container", hasty)
    _, points = run_docker_drill(tmp_path, "dhasty", IMAGE, None)
    removed = next(p for p, name in points.items() if "after DELETE containers" in name)
    told, _ = run_docker_drill(tmp_path, "dhast2", IMAGE, removed)
    assert not told.converged
    assert "vanished" in told.stuck


@pytest.mark.slow
def test_the_drill_tells_of_networks_that_nobody_takes_away(tmp_path, monkeypatch):
    monkeypatch.setattr(Networks, "sweep", lambda networks: None)
    told, _ = run_docker_drill(tmp_path, "dleft", IMAGE, None)
    assert not told.converged
    assert told.stuck.startswith("give all back and leave: nothing, there are 1")


@pytest.mark.slow
def test_the_drill_tells_of_a_second_start(tmp_path, monkeypatch):
    plain = DockerRuntime.stop

    def stop(runtime, replica_id, grace_seconds):
        for container in runtime._containers(replica_id):
            container.restart(timeout=grace_seconds)
        plain(runtime, replica_id, grace_seconds)

    monkeypatch.setattr(DockerRuntime, "stop", stop)
    told, _ = run_docker_drill(tmp_path, "dagain", IMAGE, None)
    assert told.double_starts > 0


@pytest.mark.slow
def test_the_command_prints_one_json_object_and_says_where_no_engine_answers(tmp_path):
    drill = [sys.executable, "-m", "agents", "drill", "--runtime", "docker", "--json"]

    def drill_process(*more: str) -> subprocess.CompletedProcess[str]:
        root = Path(docker_crash.__file__).parents[2]
        return subprocess.run(
            [*drill, *more], cwd=root, capture_output=True, text=True, check=False
        )

    done = drill_process("--every", "100000")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    wanted = {"points", "converged", "max_rounds", "orphans", "double_starts", "touched_running"}
    assert wanted <= report.keys()
    assert report["points"] == report["converged"] == 1
    away = drill_process("--engine", f"unix://{tmp_path}/nobody.sock")
    assert away.returncode == 2
    assert away.stdout == ""
    assert "no Docker Engine answers" in away.stderr
