"""Servers of models: how the launcher splits a model over the GPUs, and what it refuses."""

import pytest

from agents.combinations.combination import CombinationCode, CombinationVerdict
from agents.combinations.commands import command_traits
from agents.combinations.shape import GangShape
from agents.combinations.table import matching
from agents.contract.documents import Rendezvous, SliceKind
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import LAUNCHERS
from tests.unit.agents.documents import a_device, a_replica

VLLM, SGLANG, TGI, RAY = (LauncherName(name) for name in ("vllm", "sglang", "tgi", "ray"))
MEETING = Rendezvous("10.0.0.1", 29_500, ("10.0.0.1", "10.0.0.2"))
SERVE = ("vllm", "serve", "m")
OLDER = ("python3", "-u", "-m", "vllm.entrypoints.openai.api_server", "--model", "m")
LAUNCH = ("python", "-m", "sglang.launch_server", "--model-path", "m")
DP_ATTENTION = "--enable-dp-attention"
SHARDS = ("text-generation-launcher", "--model-id", "m")


def started(name, command, gpus, rank=0, world=1):
    devices = tuple(a_device(kind=SliceKind.GPU) for _ in range(gpus)) or (a_device(),)
    fields = {"launcher": name, "command": command, "devices": devices, "processes": 1}
    return LAUNCHERS[name].command(Launch(a_replica(rank=rank, world=world, **fields), MEETING))


def refusal(name, *command, gpus=4, replicas=1):
    return LAUNCHERS[name].request_refusal(LaunchRequest(command, {}, replicas, 1, gpus))


@pytest.mark.parametrize(
    ("name", "command", "gpus", "at", "added"),
    [
        (VLLM, SERVE, 4, 2, "--tensor-parallel-size 4"),
        (VLLM, SERVE, 1, 2, ""),
        (VLLM, SERVE, 0, 2, ""),
        (VLLM, OLDER, 2, 4, "--tensor-parallel-size 2"),
        (VLLM, (*SERVE, "-tp", "2", "--pipeline_parallel_size=2"), 4, 2, ""),
        (VLLM, (*SERVE, "--data-parallel-size=2"), 4, 2, "--tensor-parallel-size 2"),
        (VLLM, (*SERVE, "-pp", "4"), 4, 2, ""),
        (SGLANG, LAUNCH, 4, 3, "--host 0.0.0.0 --tp-size 4"),
        (SGLANG, (*LAUNCH, "--host", "::", "--tp=4"), 4, 3, ""),
        (SGLANG, (*LAUNCH, "--host=h", "--tp=4", "--dp=4", DP_ATTENTION), 4, 3, ""),
        (SGLANG, (*LAUNCH, "--host=h", "--dp", "2", DP_ATTENTION), 4, 3, "--tp-size 4"),
        (TGI, SHARDS, 4, 1, "--hostname 0.0.0.0 --port 8080 --num-shard 4"),
        (TGI, (*SHARDS, "--port", "80"), 1, 1, "--hostname 0.0.0.0"),
        (TGI, (*SHARDS, "-p", "80"), 1, 1, "--hostname 0.0.0.0"),
        (TGI, ("/tgi-entrypoint.sh", "--num-shard", "2", "--hostname=h", "--port=1"), 2, 1, ""),
    ],
)
def test_every_gpu_of_a_replica_has_its_part_unless_the_command_says_which(
    name, command, gpus, at, added
):
    assert started(name, command, gpus) == [*command[:at], *added.split(), *command[at:]]
    assert refusal(name, *command, gpus=gpus) is None


def test_vllm_joins_the_replicas_by_pipeline_parallelism_and_only_rank_0_answers():
    place = "--nnodes 2 --node-rank {} --master-addr 10.0.0.1 --master-port 29500"
    sizes = ["--tensor-parallel-size", "8", "--pipeline-parallel-size", "2"]
    for rank, more in ((0, []), (1, ["--headless"])):
        words = started(VLLM, SERVE, 8, rank, 2)
        assert words == ["vllm", "serve", *sizes, *place.format(rank).split(), *more, "m"]
    assert refusal(VLLM, *SERVE, gpus=8, replicas=2) is None
    # That it spans nodes then is only warned of.
    assert refusal(VLLM, *SERVE, "-tp", "16", gpus=8, replicas=2) is None
    assert started(VLLM, (*SERVE, "-tp", "16"), 8, 0, 2)[2:4] == ["--nnodes", "2"]


def test_vllm_takes_the_address_of_the_gang_if_it_is_one():
    own = LAUNCHERS[VLLM].environment(Launch(a_replica(rank=1, world=2), MEETING))
    assert own == {"VLLM_HOST_IP": "10.0.0.2"}
    by_name = Rendezvous("a", 1, ("a", "b"))
    assert LAUNCHERS[VLLM].environment(Launch(a_replica(rank=1, world=2), by_name)) == {}


def test_sglang_joins_the_replicas_by_pipeline_parallelism():
    words = started(SGLANG, LAUNCH, 8, 1, 2)
    added = "--host 0.0.0.0 --tp-size 8 --pp-size 2 --nnodes 2 --node-rank 1"
    place = ["--dist-init-addr", "10.0.0.1:29500"]
    assert words == [*LAUNCH[:3], *added.split(), *place, *LAUNCH[3:]]


@pytest.mark.parametrize(
    ("name", "command", "gpus", "replicas", "field", "says", "mended"),
    [
        (VLLM, ("python", "t.py"), 4, 1, "command", "needs a command such as: vllm serve", None),
        (VLLM, (*SERVE, "-tp", "6"), 4, 2, "command", "need 6 GPUs", SERVE),
        (VLLM, (*SERVE, "--tensor-parallel-size=3"), 4, 1, "command", "need 3 GPUs", SERVE),
        (VLLM, (*SERVE, "-pp", "3"), 4, 1, "command", "need 3 GPUs", SERVE),
        (VLLM, (*SERVE, "-tp", "16"), 8, 1, "command", "need 16 GPUs", SERVE),
        (VLLM, (*SERVE, "-dp", "16"), 8, 1, "command", "need 16 GPUs", SERVE),
        (VLLM, OLDER, 4, 2, "command", "needs a command such as: vllm serve", None),
        (VLLM, (*SERVE, "--headless", "-n", "2"), 4, 2, "command", "--headless, -n", SERVE),
        (VLLM, (*SERVE, "-dp", "2"), 0, 1, "command", "over slices or shares", SERVE),
        (VLLM, SERVE, 0, 2, "replicas", "over slices or shares", 1),
        (SGLANG, (*LAUNCH, "--nnodes=2"), 4, 2, "command", "leave out --nnodes", LAUNCH),
        (SGLANG, (*LAUNCH, "--tp=4", "--dp=2"), 4, 1, "command", "need 8 GPUs", LAUNCH),
        (TGI, (*SHARDS, "--num-shard", "8"), 4, 1, "command", "need 8 GPUs", SHARDS),
        (TGI, SHARDS, 4, 2, "replicas", "serves a model in one replica", 1),
    ],
)
def test_what_cannot_work_is_refused_with_the_request_that_can(
    name, command, gpus, replicas, field, says, mended
):
    found = refusal(name, *command, gpus=gpus, replicas=replicas)
    assert (found.field, says in found.why.text % found.why.values) == (field, True), found
    value = list(mended) if isinstance(mended, tuple) else mended
    assert found.changes == ({} if mended is None else {field: value})


@pytest.mark.parametrize("command", [(*SERVE, "-tp", "2"), (*LAUNCH, "--tp=2")])
def test_tensor_parallelism_on_a_slice_is_left_to_the_table_of_combinations(command):
    name = VLLM if command[:2] == SERVE[:2] else SGLANG
    assert refusal(name, *command, gpus=0) is None
    shape = GangShape(frozenset((SliceKind.MIG,)), launcher=name, command=command_traits(command))
    (row,) = matching(shape, CombinationVerdict.REFUSE)
    assert row.code is CombinationCode.TENSOR_PARALLEL_ON_PARTS


@pytest.mark.parametrize("size", ["9" * 10_000, "²", "-1", "0", ""])
def test_a_size_that_is_no_number_is_left_to_the_server(size):
    command = (*SERVE, "-tp", size)
    assert refusal(VLLM, *command) is None
    assert started(VLLM, command, 4) == list(command)


def test_rays_executor_is_sent_to_launcher_ray():
    command = (*SERVE, "--distributed-executor-backend", "ray")
    found = refusal(VLLM, *command, gpus=8, replicas=2)
    assert (found.field, found.changes) == ("launcher", {"launcher": "ray"})
    assert refusal(RAY, *command, gpus=8, replicas=2) is None
    assert refusal(VLLM, *command, gpus=8) is None


@pytest.mark.parametrize("word", ["start", "symmetric-run", "stop"])
def test_a_cluster_of_its_own_is_refused_under_launcher_ray(word):
    assert refusal(RAY, "ray", word, "--head").field == "command"
    assert refusal(RAY, "ray", "job", "submit") is None


def test_a_server_under_torchrun_is_sent_to_its_own_launcher():
    request = LaunchRequest(SERVE, {}, 2, 4, 4)
    found = nested_launcher(LauncherName.TORCHRUN, request)
    assert found.changes == {"launcher": "vllm", "processes": 1}
    for launcher in (VLLM, RAY, LauncherName.NONE):
        assert nested_launcher(launcher, request) is None
