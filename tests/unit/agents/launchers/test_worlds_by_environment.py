"""Launchers of libraries that read their world in the environment: JAX, TensorFlow, MindSpore."""

import json
import subprocess

import pytest

from agents.admission.local_checks import combination_refusal
from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch
from agents.launchers.registry import LAUNCHERS
from scheduler.core.request import InvalidRequest, RequestLimits, parse_request
from tests.unit.agents.documents import a_replica


def environment(name, meeting, rank=1, world=2):
    replica = a_replica(launcher=name, rank=rank, world=world, processes=1)
    return LAUNCHERS[LauncherName(name)].environment(Launch(replica, meeting))


def test_jax_is_told_the_coordinator_and_its_own_number():
    env = environment("jax", Rendezvous("fd00::1", 29_500, ("fd00::1", "fd00::2")))
    assert {key: value for key, value in env.items() if key.startswith("JAX_")} == {
        "JAX_COORDINATOR_ADDRESS": "[fd00::1]:29500",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
    }
    assert (env["RANK"], env["WORLD_SIZE"]) == ("1", "2")


@pytest.mark.parametrize(
    ("port", "peers", "workers"),
    [
        (29_500, ("a", "b"), ["a:29500", "b:29500"]),
        (29_500, ("a", "b", "a"), ["a:29500", "b:29500", "a:29501"]),
        (65_535, ("a", "a"), ["a:65535", "a:1024"]),
    ],
)
def test_the_workers_of_tensorflow_have_an_endpoint_each(port, peers, workers):
    """Ranks on one address, as processes of one machine are, need ports of their own."""
    env = environment("tensorflow", Rendezvous(peers[0], port, peers), world=len(peers))
    task = {"type": "worker", "index": 1}
    assert json.loads(env["TF_CONFIG"]) == {"cluster": {"worker": workers}, "task": task}


@pytest.mark.parametrize(
    ("launcher", "name"),
    [("jax", "JAX_PROCESS_ID"), ("tensorflow", "TF_CONFIG"), ("mindspore", "MS_ROLE")],
)
def test_a_request_may_set_its_world_itself_under_another_launcher_alone(launcher, name):
    body = {"project": "p", "name": "n", "image": "i", "command": ["c"], "device": {"gpus": 1}}
    body |= {"launcher": launcher, "env": {name: "mine"}}
    with pytest.raises(InvalidRequest) as refused:
        parse_request(body, RequestLimits())
    (error,) = refused.value.errors
    assert (error.field, error.code) == (f"env.{name}", "invalid_combination")
    assert parse_request(body | {"launcher": "none"}, RequestLimits()).env == {name: "mine"}
    replica = a_replica(launcher=launcher, processes=1, env={name: "mine"})
    assert combination_refusal(replica).code == "launcher"


PROGRAM = 'echo "$MS_ROLE $MS_NODE_ID $MS_SCHED_HOST $1" >> "$HOME/said"; exit $2'


def mindspore(folder, rank, code, start=None):
    """The role, number and argument of each process that its script starts, and its exit code."""
    launcher = LAUNCHERS[LauncherName.MINDSPORE]
    command = ("sh", "-c", PROGRAM, "sh", "a b", str(code))
    replica = a_replica(rank=rank, world=2, command=command, processes=1)
    launch = Launch(replica, Rendezvous("localhost", 29_500, ("localhost",) * 2), folder)
    for name, text in launcher.files(launch).items():
        (folder / name).write_text(text)
    env = launcher.environment(launch) | {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(launcher.command(launch), cwd=start or folder, env=env, check=False)
    return sorted((folder / "said").read_text().splitlines()), done.returncode


def test_rank_0_of_mindspore_runs_the_scheduler_beside_its_worker(tmp_path):
    said, code = mindspore(tmp_path, 0, 0)
    assert [line.split()[:2] for line in said] == [["MS_SCHED", "0"], ["MS_WORKER", "0"]]
    # It wants an IP address; the argument with a blank stays one.
    assert all(line.split()[2] in ("127.0.0.1", "::1") for line in said)
    assert (all(line.endswith("a b") for line in said), code) == (True, 0)


def test_its_scheduler_runs_where_nobody_can_write_such_as_in_the_code_of_the_job(tmp_path):
    said, code = mindspore(tmp_path, 0, 0, start="/proc")
    assert ([line.split()[0] for line in said], code) == (["MS_SCHED", "MS_WORKER"], 0)
    assert (tmp_path / "scheduler.log").exists()


def test_another_rank_of_mindspore_runs_its_worker_alone_and_ends_as_it_does(tmp_path):
    said, code = mindspore(tmp_path, 1, 5)
    assert [line.split()[:2] for line in said] == [["MS_WORKER", "1"]]
    assert code == 5
