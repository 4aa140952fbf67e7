"""Launchers as real processes: a portal, two agents, and ranks that really add up.

`torchrun_stand_in` starts the ranks as torchrun does; `test_torchrun.py` runs PyTorch's own.
"""

import json
import sys

import pytest

from tests.services.stack import ROOT, Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]
STAND_IN = str(ROOT / "tests" / "support" / "torchrun_stand_in")
PROGRAM = [str(ROOT / "docs" / "examples" / "distributed_sum.py"), "--rounds", "20"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("launchers")) as running:
        yield running


def results(stack, job, count, containers=2):
    """The last line of each rank, once all are there."""

    ranks = range(containers)

    def read():
        logs = (stack.call("GET", f"/jobs/{job}/logs", params={"rank": rank}) for rank in ranks)
        lines = [line for log in logs for line in log.splitlines() if line.startswith("{")]
        ends = [end for end in map(json.loads, lines) if end["event"] == "result"]
        return ends if len(ends) == count else None

    return until(read, what=f"{count} results")


@pytest.mark.parametrize(("launcher", "ranks"), [("none", 2), ("torchrun", 4)])
def test_the_ranks_of_two_nodes_are_one_world_under_every_launcher(stack, launcher, ranks):
    job = stack.submit(
        [sys.executable, *PROGRAM],
        launcher=launcher,
        device={"gpus": 2},
        replicas=2,
        topology="any",
        env={"PYTHONPATH": STAND_IN},
    )
    assert stack.until_status(job, "succeeded", "failed")["status"] == "succeeded"
    found = results(stack, job, ranks)
    assert {end["rank"] for end in found} == set(range(ranks))
    assert all(end["allreduce_ok"] and end["world"] == ranks for end in found)


@pytest.mark.parametrize(("containers", "count"), [("per-node", 1), ("per-replica", 2)])
def test_replicas_of_one_node_are_the_same_world_in_one_container_or_two(stack, containers, count):
    job = stack.submit(
        [sys.executable, *PROGRAM],
        launcher="torchrun",
        device={"gpus": 1},
        replicas=2,
        topology="same-node",
        containers=containers,
        env={"PYTHONPATH": STAND_IN},
    )
    seen = stack.until_status(job, "succeeded", "failed")
    assert seen["status"] == "succeeded"
    (attempt,) = seen["attempts"]
    assert (len(attempt["replicas"]), attempt["joined_replicas"]) == (count, 2 // count)
    found = results(stack, job, 2, containers=count)
    assert {end["rank"] for end in found} == {0, 1}
    assert all(end["allreduce_ok"] and end["world"] == 2 for end in found)


def test_the_ranks_have_the_variables_that_rest_lists(stack):
    shows = "import json, os; print(json.dumps({'event': 'result', 'env': dict(os.environ)}))"
    shape = {"device": {"gpus": 2}, "replicas": 2, "topology": "any"}
    job = stack.submit([sys.executable, "-c", shows], env={"NCCL_ALGO": "Ring"}, **shape)
    assert stack.until_status(job, "succeeded", "failed")["status"] == "succeeded"
    listed = {
        one["name"]: one["value"]
        for told in stack.call("GET", f"/jobs/{job}/rank-network")["results"]
        for one in told["variables"]
    }
    assert listed.items() >= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_ALGO": "Ring"}.items()
    for end in results(stack, job, 2):
        output = end["env"]["TESSERA_OUTPUT_DIR"]
        found = {name: end["env"][name].replace(output, "$TESSERA_OUTPUT_DIR") for name in listed}
        assert found == listed


MEETS = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
workers, index = config["cluster"]["worker"], config["task"]["index"]
own, other = (worker.rsplit(":", 1) for worker in (workers[index], workers[1 - index]))
with socket.create_server((own[0], int(own[1]))) as server:
    for _ in range(600):
        try:
            link = socket.create_connection((other[0], int(other[1])))
            break
        except OSError:
            time.sleep(0.1)
    link.sendall(b"%d" % index)
    print("met", server.accept()[0].recv(1).decode(), flush=True)
"""


def test_the_workers_of_tensorflow_reach_each_other_where_tf_config_says(stack):
    command, shape = [sys.executable, "-c", MEETS], {"device": {"gpus": 2}, "replicas": 2}
    job = stack.submit(command, launcher="tensorflow", topology="any", **shape)
    assert stack.until_status(job, "succeeded", "failed")["status"] == "succeeded"
    for rank in (0, 1):
        logs = {"params": {"rank": rank}}
        until(lambda logs=logs: "met" in stack.call("GET", f"/jobs/{job}/logs", **logs))


def test_a_nested_torchrun_is_refused_and_its_mended_request_runs(stack):
    nested = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *PROGRAM]
    body = {
        **{"project": "vision", "name": "nested", "image": "tessera-example:latest"},
        **{"command": nested, "launcher": "torchrun", "device": {"gpus": 2}, "replicas": 2},
        **{"topology": "any", "time_limit": "10m", "cpu": "100m", "memory": "128MiB"},
        "env": {"PYTHONPATH": STAND_IN},
    }
    headers = {"Authorization": f"Token {stack.seeded['token']}"}
    refused = stack.http.post(f"{stack.url}/api/v1/jobs", json=body, headers=headers)
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    job = str(stack.call("POST", "/jobs", json=body | error["suggestion"])["id"])
    assert stack.until_status(job, "succeeded", "failed")["status"] == "succeeded"
    assert {end["rank"] for end in results(stack, job, 4)} == {0, 1, 2, 3}
