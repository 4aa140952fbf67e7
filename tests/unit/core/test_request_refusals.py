"""Every bad request gets a precise answer: the field, the code, and what to write instead."""

import pytest

from scheduler.core.request import Problem, RequestLimits, RequestRefused, parse_request

GOOD = {
    "project": "vision",
    "name": "sum",
    "image": "registry.example/sum:1",
    "command": ["python", "sum.py"],
    "device": {"mig": "2g.35gb"},
}
LIMITS = RequestLimits(image_allow=("registry.example/*", "busybox"))


def problems(body, limits=LIMITS):
    with pytest.raises(RequestRefused) as refused:
        parse_request(body, limits)
    return refused.value.errors


WORDS = "write a list of words"
COUNT = "write a whole number from"
TIME = "write a time with its unit"
MEMORY = "write memory with its unit"
BAD = {
    "no project": ({"project": None}, "project", Problem.TYPE, "needed, not null"),
    "project is a number": ({"project": 7}, "project", Problem.VALUE, "1 to 63"),
    "name with a space": ({"name": "my job"}, "name", Problem.VALUE, "1 to 63"),
    "name of 64": ({"name": "a" * 64}, "name", Problem.VALUE, "1 to 63"),
    "name with a line end": ({"name": "sum\n"}, "name", Problem.VALUE, "1 to 63"),
    "name is a path": ({"name": "../sum"}, "name", Problem.VALUE, "1 to 63"),
    "kind unknown": ({"kind": "desktop"}, "kind", Problem.VALUE, "batch, notebook, service"),
    "kind is a list": ({"kind": ["batch"]}, "kind", Problem.VALUE, "batch, notebook, service"),
    "image is empty": ({"image": ""}, "image", Problem.VALUE, "registry/pytorch"),
    "image is an option": ({"image": "--privileged"}, "image", Problem.VALUE, "registry/pytorch"),
    "image elsewhere": ({"image": "evil/sum"}, "image", Problem.FORBIDDEN, "registry.example/*"),
    "image almost": ({"image": "busybox2"}, "image", Problem.FORBIDDEN, "busybox2 is not allowed"),
    "command is a text": ({"command": "python sum.py"}, "command", Problem.TYPE, WORDS),
    "command is empty": ({"command": []}, "command", Problem.TYPE, WORDS),
    "command is an object": ({"command": {"0": "sh"}}, "command", Problem.TYPE, WORDS),
    "command has a number": ({"command": ["sleep", 5]}, "command.1", Problem.TYPE, "in quotes"),
    "command has a null": ({"command": [None]}, "command.0", Problem.TYPE, "in quotes"),
    "command has NUL": ({"command": ["a\0b"]}, "command.0", Problem.VALUE, "no NUL"),
    "command word too long": ({"command": ["a" * 32_769]}, "command.0", Problem.VALUE, "32768"),
    "command of 1025 words": ({"command": ["a"] * 1_025}, "command", Problem.RANGE, "1024 words"),
    "launcher unknown": ({"launcher": "mpirun"}, "launcher", Problem.VALUE, "none, torchrun"),
    "no replicas": ({"replicas": 0}, "replicas", Problem.RANGE, f"{COUNT} 1 to 64"),
    "minus one replica": ({"replicas": -1}, "replicas", Problem.RANGE, f"{COUNT} 1 to 64"),
    "a thousand replicas": ({"replicas": 1_000}, "replicas", Problem.RANGE, f"{COUNT} 1 to 64"),
    "replicas as text": ({"replicas": "2"}, "replicas", Problem.TYPE, f"{COUNT} 1 to 64"),
    "replicas true": ({"replicas": True}, "replicas", Problem.TYPE, f"{COUNT} 1 to 64"),
    "half a replica": ({"replicas": 1.5}, "replicas", Problem.TYPE, f"{COUNT} 1 to 64"),
    "NCCL over slices": (
        {"backend": "nccl", "replicas": 2},
        *("backend", Problem.COMBINATION, "NCCL cannot connect 2 processes on MIG slices: choose"),
    ),
    "NCCL in one slice": (
        {"backend": "nccl", "launcher": "torchrun", "processes": 2},
        *("backend", Problem.COMBINATION, "choose backend gloo, or whole GPUs"),
    ),
    "NCCL over shares": (
        {
            "backend": "nccl",
            "replicas": 3,
            "device": {"mps": {"threads": 25, "memory": "1GiB"}},
        },
        *("backend", Problem.COMBINATION, "NCCL cannot connect 3 processes on MPS shares"),
    ),
    "NCCL over whatever has the memory": (
        {"backend": "nccl", "replicas": 2, "device": {"memory": "1GiB"}},
        *("backend", Problem.COMBINATION, "whole GPUs"),
    ),
    "backend unknown": ({"backend": "mpi"}, "backend", Problem.VALUE, "auto, nccl, gloo"),
    "no processes": ({"processes": 0}, "processes", Problem.RANGE, f"{COUNT} 1 to 64"),
    "processes alone": ({"processes": 2}, "processes", Problem.COMBINATION, "torchrun"),
    "potatoes of memory": ({"memory": "5 potatoes"}, "memory", Problem.VALUE, MEMORY),
    "vendor's gigabytes": ({"memory": "64GB"}, "memory", Problem.VALUE, MEMORY),
    "memory without unit": ({"memory": 4_096}, "memory", Problem.VALUE, MEMORY),
    "no memory": ({"memory": "0GiB"}, "memory", Problem.VALUE, "more than 0"),
    "memory below a container": ({"memory": "3MiB"}, "memory", Problem.RANGE, "at least 4MiB"),
    "disk without unit": ({"disk": 200}, "disk", Problem.VALUE, "write disk with its unit"),
    "no disk": ({"disk": "0GiB"}, "disk", Problem.VALUE, "disk must be more than 0"),
    "memory beyond all": ({"memory": "99999999TiB"}, "memory", Problem.VALUE, "anything there is"),
    "shm in potatoes": ({"shm": "5 potatoes"}, "shm", Problem.VALUE, MEMORY),
    "cpu in potatoes": ({"cpu": "5 potatoes"}, "cpu", Problem.VALUE, "write whole cores"),
    "no cpu": ({"cpu": 0}, "cpu", Problem.VALUE, "more than 0"),
    "minus one cpu": ({"cpu": -1}, "cpu", Problem.VALUE, "more than 0"),
    "half a cpu": ({"cpu": 0.5}, "cpu", Problem.VALUE, "500m"),
    "negative time limit": ({"time_limit": -1}, "time_limit", Problem.VALUE, "more than 0"),
    "negative time as text": ({"time_limit": "-1h"}, "time_limit", Problem.VALUE, TIME),
    "no time limit": ({"time_limit": 0}, "time_limit", Problem.VALUE, "more than 0"),
    "time limit empty": ({"time_limit": ""}, "time_limit", Problem.VALUE, TIME),
    "time limit null": ({"time_limit": None}, "time_limit", Problem.VALUE, TIME),
    "time limit of 8 days": ({"time_limit": "8d"}, "time_limit", Problem.RANGE, "at most 7d"),
    "time limit huge": ({"time_limit": 10**30}, "time_limit", Problem.VALUE, "anything there is"),
    "time in potatoes": ({"time_limit": "5 potatoes"}, "time_limit", Problem.VALUE, TIME),
    "grace in potatoes": ({"grace": "soon"}, "grace", Problem.VALUE, TIME),
    "grace of two hours": ({"grace": "2h"}, "grace", Problem.RANGE, "at most 1h"),
    "priority unknown": ({"priority": "urgent"}, "priority", Problem.VALUE, "low, normal, high"),
    "topology unknown": ({"topology": "ring"}, "topology", Problem.VALUE, "same-node"),
    "retries as number": ({"retries": 3}, "retries", Problem.TYPE, "{infrastructure: 3, user: 0}"),
    "retries of a third kind": ({"retries": {"gpu": 1}}, "retries", Problem.TYPE, "user: 0"),
    "eleven retries": ({"retries": {"user": 11}}, "retries.user", Problem.RANGE, "0 to 10"),
    "retries as text": ({"retries": {"user": "1"}}, "retries.user", Problem.TYPE, "0 to 10"),
    "env as a list": ({"env": ["A=1"]}, "env", Problem.TYPE, "names and texts"),
    "env of 257": ({"env": {f"A{i}": "" for i in range(257)}}, "env", Problem.TYPE, "at most 256"),
    "env value a number": ({"env": {"BATCH": 64}}, "env.BATCH", Problem.TYPE, "in quotes"),
    "env value with NUL": ({"env": {"A": "\0"}}, "env.A", Problem.TYPE, "text"),
    "env name with =": ({"env": {"A=B": "c"}}, "env.A=B", Problem.VALUE, "letters, digits"),
    "env name empty": ({"env": {"": "c"}}, "env.", Problem.VALUE, "letters, digits"),
    "unknown field": ({"privileged": True}, "privileged", Problem.UNKNOWN, "leave it out"),
    "begin without a zone": (
        {"begin_at": "2026-01-31T18:00:00"},
        *("begin_at", Problem.VALUE, "say the time zone"),
    ),
    "begin is a word": ({"begin_at": "tomorrow"}, "begin_at", Problem.VALUE, "a time such as"),
    "begin is a number": ({"begin_at": 7}, "begin_at", Problem.TYPE, "in quotes"),
    "begin long ago": ({"begin_at": "1970-01-01T00:00Z"}, "begin_at", Problem.RANGE, "century"),
    "begin without a unit": ({"begin_at": "+2"}, "begin_at", Problem.VALUE, "with its unit"),
    "begin in two years": ({"begin_at": "+800d"}, "begin_at", Problem.RANGE, "a year"),
    "after is a text": ({"after": "J-1"}, "after", Problem.TYPE, "write a list of at most 32"),
    "after nothing": ({"after": ["J-0"]}, "after.0", Problem.VALUE, "label of a job"),
    "preemptible is a text": ({"preemptible": "no"}, "preemptible", Problem.TYPE, "true or false"),
    "needs with a space": ({"needs": ["a b"]}, "needs.0", Problem.VALUE, "without spaces"),
    "needs without a value": ({"needs": ["zone="]}, "needs.0", Problem.VALUE, "without spaces"),
    "tolerates too much": (
        {"tolerates": ["a"] * 33},
        *("tolerates", Problem.TYPE, "at most 32 words"),
    ),
    "field of later": ({"volumes": ["/"]}, "volumes", Problem.UNSUPPORTED, "not offered yet"),
    "field is a number": ({7: 1}, "7", Problem.UNKNOWN, "leave it out"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_bad_field_gives_one_error_with_its_field_its_code_and_what_to_write(case):
    fields, field, code, sentence = BAD[case]
    (error,) = problems(GOOD | fields)
    assert (error.field, error.code) == (field, code), error
    assert sentence in error.sentence


@pytest.mark.parametrize("field", ["project", "name", "image", "command", "device"])
def test_a_field_that_must_be_there_is_named_when_it_is_missing(field):
    (error,) = problems({k: v for k, v in GOOD.items() if k != field})
    assert (error.field, error.code) == (field, Problem.MISSING)
    assert error.sentence == f"{field} is needed"


@pytest.mark.parametrize("body", [None, [], "name: sum", 7, [GOOD]])
def test_what_is_no_object_is_refused_as_a_whole(body):
    first = problems(body)[0]
    assert (first.field, first.code) == ("", Problem.TYPE)


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_X", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
        *("CUDA_MPS_PIPE_DIRECTORY", "TESSERA_JOB", "PET_NNODES", "LD_PRELOAD", "LD_AUDIT"),
        *("LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
        *("LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES", "GROUP_RANK"),
    ],
)
def test_a_reserved_environment_name_is_refused_by_its_name(name):
    (error,) = problems(GOOD | {"env": {name: "all"}})
    assert (error.field, error.code) == (f"env.{name}", Problem.RESERVED)
    assert error.sentence == f"{name} is set by Tessera: leave it out"


@pytest.mark.parametrize("name", ["CUDA_LAUNCH_BLOCKING", "nvidia_x", "RANKS", "MY_RANK", "_PET_"])
def test_a_name_that_only_looks_reserved_is_the_users(name):
    assert parse_request(GOOD | {"env": {name: ""}}, LIMITS).env == {name: ""}


def test_the_limit_of_this_place_is_told_in_the_unit_it_was_set_in():
    limits = RequestLimits(max_time_limit_seconds=5_400, default_time_limit_seconds=600)
    (error,) = problems(GOOD | {"time_limit": "2h"}, limits)
    assert error.sentence == "at most 1h30m here"
    (error,) = problems(GOOD | {"replicas": 5}, RequestLimits(max_replicas=4))
    assert error.sentence == "write a whole number from 1 to 4"


def test_several_problems_are_told_together():
    body = {"name": "a b", "image": "evil/sum", "command": "sh", "replicas": 0, "gpus": 1}
    body |= {"time_limit": "-1h", "memory": "5 potatoes", "env": {"RANK": "0", "A": 1}}
    told = [(error.field, error.code) for error in problems(body | {"device": {}})]
    assert told == [
        ("gpus", Problem.UNKNOWN),
        ("project", Problem.MISSING),
        ("name", Problem.VALUE),
        ("image", Problem.FORBIDDEN),
        ("command", Problem.TYPE),
        ("replicas", Problem.RANGE),
        ("device", Problem.COMBINATION),
        ("memory", Problem.VALUE),
        ("time_limit", Problem.VALUE),
        ("env.RANK", Problem.RESERVED),
        ("env.A", Problem.TYPE),
    ]


def test_the_refusal_as_a_text_names_every_field():
    with pytest.raises(RequestRefused) as refused:
        parse_request(GOOD | {"replicas": 0, "cpu": "x"}, LIMITS)
    assert str(refused.value).startswith("replicas: write a whole number from 1 to 64; cpu: ")


def test_an_endless_name_is_cut_in_the_answer():
    (error,) = problems(GOOD | {"x" * 10_000: 1})
    assert error.field == "x" * 64
    (error,) = problems(GOOD | {"env": {"9" * 10_000: "1"}})
    assert error.field == "env." + "9" * 64
