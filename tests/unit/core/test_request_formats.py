"""One request in every form it is kept and shown in: people's words, JSON, YAML, the wire."""

import json

import pytest
import yaml

from agents.contract.codec import decode, encode
from agents.contract.documents import CollectiveBackend, DesiredReplica
from agents.contract.launcher_names import LauncherName
from agents.contract.rank_network import RdmaUse
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology
from scheduler.core.request import (
    JobKind,
    JobRequest,
    RequestLimits,
    parse_request,
    parse_stored_request,
    request_as_dict,
    request_as_yaml,
)
from scheduler.core.request.values import ContainerSharing

LEAST = {
    "project": "vision",
    "name": "sum",
    "image": "busybox",
    "command": ["true"],
    "device": {"gpus": 1},
}
FULL = {
    "project": "vision",
    "name": "Sum.2_b-c",
    "kind": "service",
    "image": "registry.example:5000/team/torch@sha256:" + "0a" * 32,
    "command": ["sh", "-c", "echo \"a: b\" && echo 'no' # \u00e9\u4e2d\n\t%s"],
    "launcher": "torchrun",
    "replicas": 3,
    "processes": 2,
    "device": {"gpus": 2, "models": ["H200", "NVIDIA L40S"], "isolation": "any"},
    "cpu": "1500m",
    "memory": "96GiB",
    "shm": "100MiB",
    "disk": "1500GiB",
    "time_limit": "1d2h3m4s",
    "priority": "high",
    "topology": "same-node",
    "backend": "nccl",
    "rdma": "on",
    "containers": "per-replica",
    "preflight": "none",
    "retries": {"infrastructure": 0, "user": 10},
    "grace": "1h",
    "env": {"BATCH": "64", "EMPTY": "", "YES": "no", "TEXT": "a: {b}\n"},
    "profiler": "none",
    "preemptible": True,
    "begin_at": "2026-01-31T18:00:00+01:00",
    "after": ["J-12", "j-013", "12", "a-5:Ended"],
    "needs": ["nvme", "zone=a"],
    "tolerates": ["staging"],
}
LIMITS = RequestLimits()
BODIES = {"least": LEAST, "full": FULL} | {
    name: LEAST | {"device": device}
    for name, device in {
        "mig": {"mig": "3g.71gb"},
        "memory": {"memory": "40GiB"},
        "share": {"mps": {"threads": 25, "memory": "513MiB"}},
    }.items()
}
every_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)


def test_the_words_of_a_request_become_amounts_with_units():
    assert parse_request(FULL, LIMITS) == JobRequest(
        project="vision",
        name="Sum.2_b-c",
        image="registry.example:5000/team/torch@sha256:" + "0a" * 32,
        command=tuple(FULL["command"]),
        device=parse_request(FULL, LIMITS).device,
        time_limit_seconds=93_784,
        kind=JobKind.SERVICE,
        launcher=LauncherName.TORCHRUN,
        replicas=3,
        processes=2,
        cpu_milli=1_500,
        memory_mib=98_304,
        shm_mib=100,
        disk_mib=1_536_000,
        priority=Priority.HIGH,
        topology=Topology.SAME_NODE,
        backend=CollectiveBackend.NCCL,
        rdma=RdmaUse.ON,
        containers=ContainerSharing.PER_REPLICA,
        infrastructure_retries=0,
        user_retries=10,
        grace_seconds=3_600,
        env=FULL["env"],
        preemptible=True,
        begin_at=1_769_878_800,
        after=("J-12", "J-13", "A-5:ended"),
        needs=("nvme", "zone=a"),
        tolerates=("staging",),
    )


def test_what_is_left_out_gets_its_default():
    limits = RequestLimits(default_time_limit_seconds=600)
    assert parse_request(LEAST, limits) == JobRequest(
        project="vision",
        name="sum",
        image="busybox",
        command=("true",),
        device=DeviceRequest(gpus=1),
        time_limit_seconds=600,
    )


def test_work_of_low_priority_makes_way_unless_it_says_otherwise():
    low = LEAST | {"priority": "low"}
    assert parse_request(low, LIMITS).preemptible
    assert not parse_request(low | {"preemptible": False}, LIMITS).preemptible
    assert not parse_request(LEAST, LIMITS).preemptible


def test_a_delay_stays_a_delay_until_somebody_submits_it():
    request = parse_request(LEAST | {"begin_at": "+1h30m"}, LIMITS)
    assert (request.begin_at, request.begin_in) == (0, 5_400)
    assert request_as_dict(request)["begin_at"] == "+1h30m"


def test_a_request_remembers_whether_its_time_limit_was_written_down():
    assert not parse_request(LEAST, LIMITS).limit_is_chosen
    assert parse_request(LEAST | {"time_limit": "4h"}, LIMITS).limit_is_chosen


@every_body
def test_the_stored_form_reads_back_to_the_same_request(body):
    request = parse_request(body, LIMITS)
    stored = json.loads(json.dumps(request_as_dict(request)))
    assert parse_stored_request(stored) == request
    assert parse_request(stored, LIMITS) == request
    assert request_as_dict(parse_stored_request(stored)) == stored


@every_body
def test_the_yaml_form_reads_back_to_the_same_request(body):
    request = parse_request(body, LIMITS)
    assert parse_request(yaml.safe_load(request_as_yaml(request)), LIMITS) == request


@pytest.mark.parametrize(
    "text",
    [
        "\x7f",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\ufffe",
        "\x9b",
        "\U0001f600",
        "\\u2028",
        "\x1b",
    ],
)
def test_yaml_keeps_characters_that_yaml_would_fold_or_refuse(text):
    request = parse_request(LEAST | {"command": [f"a{text}b"], "env": {"A": text}}, LIMITS)
    assert yaml.safe_load(request_as_yaml(request))["command"] == [f"a{text}b"]
    assert yaml.safe_load(request_as_yaml(request))["env"] == {"A": text}


def test_every_line_of_the_yaml_is_one_field():
    lines = request_as_yaml(parse_request(FULL, LIMITS)).splitlines()
    assert [line.split(":")[0] for line in lines] == list(FULL)


def test_what_was_stored_is_not_measured_by_todays_limits():
    limits = RequestLimits(max_time_limit_seconds=10**7, max_replicas=500, image_allow=("busybox",))
    request = parse_request(LEAST | {"time_limit": 10**7, "replicas": 500}, limits)
    assert parse_stored_request(request_as_dict(request)) == request


def test_what_was_stored_is_not_measured_by_todays_combinations():
    """A rule that came later must not stop the planner at a job that waits already."""
    stored = request_as_dict(parse_request(LEAST, LIMITS))
    later = {"processes": 60, "backend": "nccl", "replicas": 2}
    assert parse_stored_request(stored | later).processes == 60
    share = {"mps": {"threads": 1, "memory": "1GiB"}, "isolation": "hardware"}
    assert parse_stored_request(stored | {"device": share}).device.mps_threads == 1


@pytest.mark.parametrize("image", ["x@sha256:0a1b", "cafe", "A/B", "a//b"])
def test_a_stored_request_keeps_the_image_that_an_earlier_version_accepted(image):
    stored = request_as_dict(parse_request(LEAST, LIMITS)) | {"image": image}
    assert parse_stored_request(stored).image == image


EDGES = {
    "the longest grace": {"grace": "1h"},
    "the least memory": {"memory": "4MiB"},
    "the least shm and cpu": {"shm": "1MiB", "cpu": "1m"},
    "the longest name": {"name": "n" * 63, "project": "p" * 63},
    "the longest image": {"image": "i" * 255 + ":" + "t" * 128},
    "the longest command": {"command": ["c" * 32_768] * 2 + ["c"] * 1_022},
    "the longest env": {"env": {"E" * 128: "v" * 32_768}},
    "most processes": {"launcher": "torchrun", "processes": 64, "device": {"gpus": 64}},
    "the largest amounts": {"memory": "1907TiB", "shm": "1907TiB", "cpu": 2_000_000},
}


@pytest.mark.parametrize("case", EDGES)
def test_a_request_that_was_accepted_can_be_told_to_a_node(case):
    """A node refuses its whole document for one bad field: no user may write such a one."""
    request = parse_request(LEAST | EDGES[case], LIMITS)
    told = DesiredReplica(
        id="r",
        job="j",
        project=request.project,
        name=request.name,
        image=request.image,
        command=request.command,
        launcher=request.launcher,
        env=dict(request.env),
        cpu_milli=request.cpu_milli,
        memory_mib=request.memory_mib,
        shm_mib=request.shm_mib,
        disk_mib=request.disk_mib,
        processes=request.processes,
        grace_seconds=request.grace_seconds,
        time_limit_seconds=request.time_limit_seconds,
    )
    assert decode(DesiredReplica, encode(told)) == told
