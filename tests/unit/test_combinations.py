"""The table of combinations: whoever asks about a row gets the same code and the same sentence.

Four ask: the request form, REST (the check of a request, which the command line uses as well), the
planner and the agent.
"""

import shlex
from pathlib import Path

import pytest

from agents.admission.local_checks import combination_refusal, local_refusals
from agents.admission.policy import NodePolicy
from agents.combinations.__main__ import table_lines
from agents.combinations.combination import CombinationCode, CombinationVerdict
from agents.combinations.commands import command_traits
from agents.combinations.shape import GangShape, replica_shape
from agents.combinations.table import COMBINATIONS, matching
from agents.contract.documents import CollectiveBackend, Device, RuntimeKind, SliceKind
from agents.contract.launcher_names import LauncherName
from portal.api.protocol.problems import request_field
from portal.web.request.form import DEFAULTS, parse_form
from scheduler.core.model.gang_shapes import job_shape
from scheduler.core.model.snapshot import Topology
from scheduler.core.placement.feasibility import combination_reason, infeasible_reason
from scheduler.core.request import InvalidRequest, RequestLimits, parse_request
from scheduler.core.request.warnings import combination_warnings, request_shape, request_warnings
from tests.support.both_sides import REQUEST
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, plan_of, reason
from tests.unit.agents.documents import a_replica

CODE, VERDICT = CombinationCode, CombinationVerdict
ROWS = {row.code: row for row in COMBINATIONS}
REFUSED = [row.code for row in COMBINATIONS if row.verdict is VERDICT.REFUSE]
WARNED = [
    row.code
    for row in COMBINATIONS
    if row.verdict is VERDICT.WARN and row.code is not CODE.NEIGHBOURS_ON_MPS
]
MIG, SHARE = {"mig": "2g.35gb"}, {"mps": {"threads": 25, "memory": "8GiB"}}
THIN = {"mps": {"threads": 3, "memory": "8GiB"}}
TENSOR = {"command": ["vllm", "serve", "m", "-tp", "2"]}
# A request to which each row applies. No request has two kinds of device, and no request shows its
# neighbours: these two are asked for where they can be.
REQUESTS = {
    CODE.MIXED_DEVICES: {"device": {"gpus": 1, "mig": "2g.35gb"}},
    CODE.NCCL_ON_MIG: {"device": MIG, "backend": "nccl", "replicas": 2},
    CODE.NCCL_ON_MPS: {"device": SHARE, "backend": "nccl", "replicas": 3},
    CODE.GLOO_ON_PARTS: {"device": MIG, "replicas": 2},
    CODE.PROCESSES_OVER_GPUS: {"device": {"gpus": 2}, "launcher": "torchrun", "processes": 3},
    CODE.PROCESSES_OVER_THREADS: {"device": THIN, "launcher": "torchrun", "processes": 4},
    CODE.PROCESSES_OVER_LAUNCHER: {"device": {"gpus": 2}, "processes": 2},
    CODE.LAUNCHER_IN_COMMAND: {
        "device": {"gpus": 2},
        "launcher": "torchrun",
        "command": ["mpirun", "-np", "2", "a.out"],
    },
    CODE.TENSOR_PARALLEL_ON_PARTS: {"device": MIG} | TENSOR,
    CODE.TENSOR_PARALLEL_OVER_REPLICAS: {"device": {"gpus": 1}, "replicas": 2} | TENSOR,
    CODE.NVLINK_ON_MIG: {"device": MIG, "replicas": 2, "topology": "nvlink"},
    CODE.PROFILER_ON_MPS: {"device": SHARE, "command": ["nsys", "profile", "python", "a.py"]},
    CODE.NEIGHBOURS_ON_MPS: {"device": SHARE},
}


def rest_errors(body):
    with pytest.raises(InvalidRequest) as caught:
        parse_request(REQUEST | body, RequestLimits())
    return caught.value.errors


def form_of(body):
    """The request form, filled in by hand; as long as it has one kind of device."""
    device = body["device"]
    values = {"project": "vision", "name": "sum", "image": "i:1", "key": "k"}
    for name in ("backend", "replicas", "launcher", "processes", "topology"):
        values |= {name: str(body[name])} if name in body else {}
    values["command"] = shlex.join(body.get("command", ["python", "sum.py"]))
    if "gpus" in device:
        values |= {"amount": "gpus", "gpus": str(device["gpus"])}
    elif share := device.get("mps"):
        values |= {"amount": "mps", "threads": str(share["threads"]), "share_memory": "8 GB"}
    else:
        values["amount"] = device["mig"]
    return parse_form(DEFAULTS | values, RequestLimits())


def job_of(body):
    """The same as a job of the queue, as one of before the rule would be."""
    device = dict(body["device"])
    if share := device.pop("mps", None):
        device["mps"] = (share["threads"], 8_192)
    return a_job(
        **device,
        replicas=body.get("replicas", 1),
        processes=body.get("processes", 1),
        launcher=LauncherName(body.get("launcher", "none")),
        backend=CollectiveBackend(body.get("backend", "auto")),
        topology=Topology(body.get("topology", "best")),
        command=command_traits(body.get("command", ["python", "sum.py"])),
    )


def replica_of(body):
    """The same as a replica that a portal sends to its node."""
    device, devices = body["device"], []
    for number in range(device.get("gpus", 0)):
        devices.append(Device(f"a-{number}", f"s-{number}", SliceKind.GPU, f"GPU-{number}"))
    if "mig" in device:
        devices.append(Device("a-m", "s-m", SliceKind.MIG, "GPU-9", "2g.35gb", 0, 2))
    if share := device.get("mps"):
        threads = share["threads"]
        devices.append(
            Device("a-s", "s-s", SliceKind.MPS, "GPU-9", threads=threads, memory_mib=8_192)
        )
    return a_replica(
        devices=tuple(devices),
        rank=0,
        world=body.get("replicas", 1),
        processes=body.get("processes", 1),
        launcher=LauncherName(body.get("launcher", "none")),
        backend=CollectiveBackend(body.get("backend", "auto")),
        command=tuple(body.get("command", ["python", "sum.py"])),
    )


def test_every_row_has_a_request_and_an_example_of_its_own():
    assert REQUESTS.keys() == ROWS.keys() == set(CombinationCode)
    for row in COMBINATIONS:
        assert row.code in {each.code for each in matching(row.example, row.verdict)}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refused_row_has_one_code_and_one_sentence_for_every_asker(code):
    body = REQUESTS[code]
    (error,) = rest_errors(body)
    sent = request_field(error)
    told = {"REST": (sent["combination"], sent["message"])}
    if code is not CODE.MIXED_DEVICES:  # the form has one list of devices
        form = form_of(body)
        (sentence,) = form.errors.values()
        told["form"] = (next(iter(form.combinations.values())), sentence)
    planned = infeasible_reason(job_of(body), a_cluster(a_node(a_gpu(), a_gpu())))
    told["planner"] = (planned.evidence["combination"], planned.sentence)
    failed = combination_refusal(replica_of(body))
    told["agent"] = (failed.code, failed.sentence)
    assert set(told.values()) == {(str(code), sent["message"])}, told
    assert sent["code"] == "invalid_combination"


@pytest.mark.parametrize("code", WARNED)
def test_a_warned_row_warns_and_blocks_nobody(code):
    body = REQUESTS[code]
    request = parse_request(REQUEST | body, RequestLimits())
    warned = [each for each in request_warnings(request) if each.combination]
    form = form_of(body)
    assert form.errors == {}
    by_form = [each for each in request_warnings(form.request) if each.combination]
    by_planner = list(combination_warnings(job_shape(job_of(body))))
    assert warned == by_form == by_planner
    assert [each.combination for each in warned] == [str(code)]
    assert combination_reason(job_of(body)) is None
    assert combination_refusal(replica_of(body)) is None


def test_gloo_on_slices_is_fine_for_everybody():
    body = REQUESTS[CODE.GLOO_ON_PARTS]
    shapes = (
        request_shape(parse_request(REQUEST | body, RequestLimits())),
        request_shape(form_of(body).request),
        job_shape(job_of(body)),
        replica_shape(replica_of(body)),
    )
    for shape in shapes:
        rows = [row for verdict in VERDICT for row in matching(shape, verdict)]
        assert [row.code for row in rows] == [CODE.GLOO_ON_PARTS]


def test_neighbours_are_warned_of_where_a_placement_shows_them():
    shape = GangShape(frozenset((SliceKind.MPS,)), threads=25, has_neighbours=True)
    (warning,) = combination_warnings(shape)
    assert warning.combination == CODE.NEIGHBOURS_ON_MPS


@pytest.mark.parametrize("code", REFUSED)
def test_a_suggestion_is_accepted(code):
    (error,) = rest_errors(REQUESTS[code])
    if not error.suggestion:
        assert code is CODE.MIXED_DEVICES
        return
    parse_request(REQUEST | REQUESTS[code] | dict(error.suggestion), RequestLimits())


def test_a_suggested_device_keeps_the_models():
    body = {"device": MIG | {"models": ["H200"]}} | TENSOR
    (error,) = rest_errors(body)
    assert error.suggestion == {"device": {"gpus": 2, "models": ["H200"]}}


def test_a_queued_job_of_before_the_rule_waits_with_the_sentence():
    body = REQUESTS[CODE.NCCL_ON_MIG]
    job = job_of(body)
    said = reason(plan_of(a_cluster(a_node(a_gpu()), jobs=[job, a_job("2")])))
    assert said.code == "impossible"
    assert said.evidence == {"combination": "nccl_on_mig"}
    assert said.sentence == rest_errors(body)[0].sentence


def test_a_rule_of_a_newer_agent_ends_nothing_that_runs():
    replica = replica_of(REQUESTS[CODE.TENSOR_PARALLEL_ON_PARTS])
    policy, runtime = NodePolicy(), RuntimeKind.DOCKER
    assert replica.id in local_refusals([replica], set(), policy, runtime)
    assert local_refusals([replica], {replica.id}, policy, runtime) == {}


@pytest.mark.parametrize(
    ("command", "traits"),
    [
        (["python", "train.py", "--tensor-model-parallel-size", "8"], ("", "", 8)),
        (["python", "-m", "sglang.launch_server", "--tp=4"], ("sglang.launch_server", "", 4)),
        (["python", "train.py", "--tp", "4"], ("", "", 1)),
        (["vllm", "serve", "m", "--tensor-parallel-size", "many"], ("vllm serve", "", 1)),
        (["vllm", "serve", "m", "-tp"], ("vllm serve", "", 1)),
        (["vllm", "serve", "m", "-tp", "2", "--tensor-parallel-size=4"], ("vllm serve", "", 4)),
        (["/usr/bin/ncu", "python", "a.py"], ("", "ncu", 1)),
        (["sh", "-c", "vllm serve m -tp 2"], ("", "", 1)),
        (["torchrun", "a.py"], ("torchrun", "", 1)),
        ([], ("", "", 1)),
    ],
)
def test_what_is_recognised_in_a_command(command, traits):
    found = command_traits(command)
    assert (found.launcher, found.profiler, found.tensor_parallel) == traits


def test_the_page_has_the_table_as_it_is():
    """`python -m agents.combinations` prints it anew."""
    page = (Path(__file__).parents[2] / "docs" / "combinations.md").read_text("utf-8")
    assert [line for line in page.splitlines() if line.startswith("|")] == list(table_lines())
