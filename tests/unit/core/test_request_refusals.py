"""Every bad request gets a precise answer: the field, the code, and what to write instead."""

import pytest

from scheduler.core.request import InvalidRequest, ProblemCode, RequestLimits, parse_request

GOOD = {
    "project": "vision",
    "name": "sum",
    "image": "registry.example/sum:1",
    "command": ["python", "sum.py"],
    "device": {"mig": "2g.35gb"},
}
LIMITS = RequestLimits(image_allow=("registry.example/*", "busybox"))


def problems(body, limits=LIMITS):
    with pytest.raises(InvalidRequest) as refused:
        parse_request(body, limits)
    return refused.value.errors


WORDS = "write a list of words"
COUNT = "write a whole number from"
TIME = "write a time with its unit"
MEMORY = "write memory with its unit"
BAD = {
    "no project": ({"project": None}, "project", ProblemCode.TYPE, "required and must not be null"),
    "project is a number": ({"project": 7}, "project", ProblemCode.VALUE, "1 to 63"),
    "name with a space": ({"name": "my job"}, "name", ProblemCode.VALUE, "1 to 63"),
    "name of 64": ({"name": "a" * 64}, "name", ProblemCode.VALUE, "1 to 63"),
    "name with a line end": ({"name": "sum\n"}, "name", ProblemCode.VALUE, "1 to 63"),
    "name is a path": ({"name": "../sum"}, "name", ProblemCode.VALUE, "1 to 63"),
    "no progress for a word": (
        {"progress_limit": "soon"},
        "progress_limit",
        ProblemCode.VALUE,
        "30m",
    ),
    "no progress for nothing": (
        {"progress_limit": None},
        "progress_limit",
        ProblemCode.VALUE,
        "30m",
    ),
    "no progress for a minute": (
        {"progress_limit": "1m:warn"},
        "progress_limit",
        ProblemCode.RANGE,
        "from 10m to 1d",
    ),
    "no progress, and another word": (
        {"progress_limit": "30m:kill"},
        "progress_limit",
        ProblemCode.VALUE,
        "30m:warn",
    ),
    "kind unknown": ({"kind": "desktop"}, "kind", ProblemCode.VALUE, "batch, notebook, service"),
    "kind is a list": ({"kind": ["batch"]}, "kind", ProblemCode.VALUE, "batch, notebook, service"),
    "image is empty": ({"image": ""}, "image", ProblemCode.VALUE, "registry/pytorch"),
    "image is an option": (
        {"image": "--privileged"},
        "image",
        ProblemCode.VALUE,
        "'--privileged' is not a part of an image's name",
    ),
    "image is an id": (
        {"image": "sha256:" + "0a" * 32},
        "image",
        ProblemCode.VALUE,
        "may be the id of any image on a node",
    ),
    "image elsewhere": (
        {"image": "evil/sum"},
        "image",
        ProblemCode.FORBIDDEN,
        "registry.example/*",
    ),
    "image almost": (
        {"image": "busybox2"},
        "image",
        ProblemCode.FORBIDDEN,
        "busybox2 is not allowed",
    ),
    "command is a text": ({"command": "python sum.py"}, "command", ProblemCode.TYPE, WORDS),
    "command is empty": ({"command": []}, "command", ProblemCode.MISSING, "entrypoint runs"),
    "command is null": ({"command": None}, "command", ProblemCode.MISSING, "write a command"),
    "command is an object": ({"command": {"0": "sh"}}, "command", ProblemCode.TYPE, WORDS),
    "command has a number": ({"command": ["sleep", 5]}, "command.1", ProblemCode.TYPE, "in quotes"),
    "command has a null": ({"command": [None]}, "command.0", ProblemCode.TYPE, "in quotes"),
    "command has NUL": ({"command": ["a\0b"]}, "command.0", ProblemCode.VALUE, "no NUL"),
    "command word too long": ({"command": ["a" * 32_769]}, "command.0", ProblemCode.VALUE, "32768"),
    "command of 1025 words": (
        {"command": ["a"] * 1_025},
        "command",
        ProblemCode.RANGE,
        "1024 words",
    ),
    "launcher unknown": ({"launcher": "rocket"}, "launcher", ProblemCode.VALUE, "none, torchrun"),
    "no replicas": ({"replicas": 0}, "replicas", ProblemCode.RANGE, f"{COUNT} 1 to 64"),
    "minus one replica": ({"replicas": -1}, "replicas", ProblemCode.RANGE, f"{COUNT} 1 to 64"),
    "a thousand replicas": ({"replicas": 1_000}, "replicas", ProblemCode.RANGE, f"{COUNT} 1 to 64"),
    "replicas as text": ({"replicas": "2"}, "replicas", ProblemCode.TYPE, f"{COUNT} 1 to 64"),
    "replicas true": ({"replicas": True}, "replicas", ProblemCode.TYPE, f"{COUNT} 1 to 64"),
    "half a replica": ({"replicas": 1.5}, "replicas", ProblemCode.TYPE, f"{COUNT} 1 to 64"),
    "NCCL over slices": (
        {"backend": "nccl", "replicas": 2},
        *(
            "backend",
            ProblemCode.COMBINATION,
            "NCCL cannot connect 2 processes on MIG slices: choose",
        ),
    ),
    "NCCL in one slice": (
        {"backend": "nccl", "launcher": "torchrun", "processes": 2},
        *("backend", ProblemCode.COMBINATION, "choose the gloo backend, or whole GPUs"),
    ),
    "NCCL over shares": (
        {
            "backend": "nccl",
            "replicas": 3,
            "device": {"mps": {"threads": 25, "memory": "1GiB"}},
        },
        *("backend", ProblemCode.COMBINATION, "NCCL cannot connect 3 processes on MPS shares"),
    ),
    "NCCL over whatever has the memory": (
        {"backend": "nccl", "replicas": 2, "device": {"memory": "1GiB"}},
        *("backend", ProblemCode.COMBINATION, "whole GPUs"),
    ),
    "backend unknown": ({"backend": "mpi"}, "backend", ProblemCode.VALUE, "auto, nccl, gloo"),
    "no processes": ({"processes": 0}, "processes", ProblemCode.RANGE, f"{COUNT} 1 to 64"),
    "processes alone": ({"processes": 2}, "processes", ProblemCode.COMBINATION, "torchrun"),
    "potatoes of memory": ({"memory": "5 potatoes"}, "memory", ProblemCode.VALUE, MEMORY),
    "memory in words": ({"memory": "64 gigabytes"}, "memory", ProblemCode.VALUE, MEMORY),
    "memory in two spellings": (
        {"memory": "4GiB", "memory_mib": 4_096},
        *("memory_mib", ProblemCode.COMBINATION, "memory_mib and memory are the same field"),
    ),
    "time limit in two spellings": (
        {"time_limit": "1h", "time_limit_seconds": 3_600},
        *("time_limit_seconds", ProblemCode.COMBINATION, "write one of them"),
    ),
    "a number of MiB as text": (
        {"memory_mib": "4GiB"},
        *("memory_mib", ProblemCode.TYPE, "write a whole number, or memory with a unit"),
    ),
    "memory without unit": ({"memory": 4_096}, "memory", ProblemCode.VALUE, MEMORY),
    "no memory": ({"memory": "0GiB"}, "memory", ProblemCode.VALUE, "more than 0"),
    "memory below a container": ({"memory": "3MiB"}, "memory", ProblemCode.RANGE, "at least 4MiB"),
    "disk without unit": ({"disk": 200}, "disk", ProblemCode.VALUE, "write disk with its unit"),
    "no disk": ({"disk": "0GiB"}, "disk", ProblemCode.VALUE, "disk must be more than 0"),
    "memory beyond all": (
        {"memory": "99999999TiB"},
        "memory",
        ProblemCode.VALUE,
        "too large",
    ),
    "shm in potatoes": ({"shm": "5 potatoes"}, "shm", ProblemCode.VALUE, MEMORY),
    "cpu in potatoes": ({"cpu": "5 potatoes"}, "cpu", ProblemCode.VALUE, "write whole cores"),
    "no cpu": ({"cpu": 0}, "cpu", ProblemCode.VALUE, "more than 0"),
    "minus one cpu": ({"cpu": -1}, "cpu", ProblemCode.VALUE, "more than 0"),
    "a third of a cpu": ({"cpu": 1 / 3}, "cpu", ProblemCode.VALUE, "500m"),
    "negative time limit": ({"time_limit": -1}, "time_limit", ProblemCode.VALUE, "more than 0"),
    "negative time as text": ({"time_limit": "-1h"}, "time_limit", ProblemCode.VALUE, TIME),
    "no time limit": ({"time_limit": 0}, "time_limit", ProblemCode.VALUE, "more than 0"),
    "time limit empty": ({"time_limit": ""}, "time_limit", ProblemCode.VALUE, TIME),
    "time limit null": ({"time_limit": None}, "time_limit", ProblemCode.VALUE, TIME),
    "time limit of 8 days": ({"time_limit": "8d"}, "time_limit", ProblemCode.RANGE, "at most 7d"),
    "time limit huge": (
        {"time_limit": 10**30},
        "time_limit",
        ProblemCode.VALUE,
        "too large",
    ),
    "time in potatoes": ({"time_limit": "5 potatoes"}, "time_limit", ProblemCode.VALUE, TIME),
    "grace in potatoes": ({"grace": "soon"}, "grace", ProblemCode.VALUE, TIME),
    "grace of two hours": ({"grace": "2h"}, "grace", ProblemCode.RANGE, "at most 1h"),
    "priority unknown": (
        {"priority": "urgent"},
        "priority",
        ProblemCode.VALUE,
        "low, normal, high",
    ),
    "topology unknown": ({"topology": "ring"}, "topology", ProblemCode.VALUE, "same-node"),
    "retries as number": (
        {"retries": 3},
        "retries",
        ProblemCode.TYPE,
        "{infrastructure: 3, user: 0}",
    ),
    "retries of a third kind": ({"retries": {"gpu": 1}}, "retries", ProblemCode.TYPE, "user: 0"),
    "eleven retries": ({"retries": {"user": 11}}, "retries.user", ProblemCode.RANGE, "0 to 10"),
    "retries as text": ({"retries": {"user": "1"}}, "retries.user", ProblemCode.TYPE, "0 to 10"),
    "env as a list": ({"env": ["A=1"]}, "env", ProblemCode.TYPE, "names and texts"),
    "env of 257": (
        {"env": {f"A{i}": "" for i in range(257)}},
        "env",
        ProblemCode.TYPE,
        "at most 256",
    ),
    "env value a number": ({"env": {"BATCH": 64}}, "env.BATCH", ProblemCode.TYPE, "in quotes"),
    "env value with NUL": ({"env": {"A": "\0"}}, "env.A", ProblemCode.TYPE, "text"),
    "env name with =": ({"env": {"A=B": "c"}}, "env.A=B", ProblemCode.VALUE, "letters, digits"),
    "env name empty": ({"env": {"": "c"}}, "env.", ProblemCode.VALUE, "letters, digits"),
    "unknown field": ({"privileged": True}, "privileged", ProblemCode.UNKNOWN, "remove it"),
    "begin without a zone": (
        {"begin_at": "2026-01-31T18:00:00"},
        *("begin_at", ProblemCode.VALUE, "add the time zone"),
    ),
    "begin is a word": ({"begin_at": "tomorrow"}, "begin_at", ProblemCode.VALUE, "a time such as"),
    "begin is a number": ({"begin_at": 7}, "begin_at", ProblemCode.TYPE, "in quotes"),
    "begin long ago": (
        {"begin_at": "1970-01-01T00:00Z"},
        "begin_at",
        ProblemCode.RANGE,
        "between 2000 and 2100",
    ),
    "begin without a unit": ({"begin_at": "+2"}, "begin_at", ProblemCode.VALUE, "with its unit"),
    "begin in two years": ({"begin_at": "+800d"}, "begin_at", ProblemCode.RANGE, "a year"),
    "after is a text": ({"after": "J-1"}, "after", ProblemCode.TYPE, "write a list of at most 32"),
    "after nothing": ({"after": ["J-0"]}, "after.0", ProblemCode.VALUE, "label of a job"),
    "after as Slurm writes it": (
        {"after": ["J-1", "afterany:12"]},
        *("after.1", ProblemCode.VALUE, "J-12:ended"),
    ),
    "preemptible is a text": (
        {"preemptible": "no"},
        "preemptible",
        ProblemCode.TYPE,
        "true or false",
    ),
    "needs with a space": ({"needs": ["a b"]}, "needs.0", ProblemCode.VALUE, "without spaces"),
    "needs without a value": ({"needs": ["zone="]}, "needs.0", ProblemCode.VALUE, "without spaces"),
    "tolerates too much": (
        {"tolerates": ["a"] * 33},
        *("tolerates", ProblemCode.TYPE, "at most 32 words"),
    ),
    "field of later": ({"ports": [80]}, "ports", ProblemCode.UNSUPPORTED, "write apps instead"),
    "app without a port": ({"apps": ["web"]}, "apps.0", ProblemCode.VALUE, "NAME:PORT"),
    "app with no such port": ({"apps": ["web:65536"]}, "apps.0", ProblemCode.VALUE, "NAME:PORT"),
    "app that ends in another host": (
        {"apps": ["a--j1:80"]},
        *("apps.0", ProblemCode.VALUE, "single hyphens"),
    ),
    "app twice": ({"apps": ["a:80", "a:81"]}, "apps.1", ProblemCode.VALUE, "a name of its own"),
    "apps without end": ({"apps": ["a:80"] * 5}, "apps", ProblemCode.TYPE, "at most 4 apps"),
    "volume without a path": ({"volumes": ["a"]}, "volumes.0", ProblemCode.TYPE, "NAME:/path"),
    "volume with a path of the host": (
        {"volumes": [{"host": "/etc", "path": "/data"}]},
        *("volumes.0", ProblemCode.TYPE, "NAME:/path"),
    ),
    "volume with no name": (
        {"volumes": ["../etc:/data"]},
        *("volumes.0.volume", ProblemCode.VALUE, "the name of a volume"),
    ),
    "volume outside of a path": (
        {"volumes": ["a:/data/../etc"]},
        *("volumes.0.path", ProblemCode.VALUE, "absolute path"),
    ),
    "volume over the system": (
        {"volumes": ["a:/usr/lib"]},
        *("volumes.0.path", ProblemCode.VALUE, "/usr is needed"),
    ),
    "volume over scratch": (
        {"volumes": ["a:/workspace/data"]},
        *("volumes.0.path", ProblemCode.VALUE, "/workspace is needed"),
    ),
    "volumes at one path": (
        {"volumes": ["a:/data", "b:/data:ro"]},
        *("volumes", ProblemCode.VALUE, "/data is there twice"),
    ),
    "volume inside another": (
        {"volumes": ["a:/data/b", "b:/data:ro"]},
        *("volumes", ProblemCode.VALUE, "/data/b is inside /data"),
    ),
    "volume that is perhaps read-only": (
        {"volumes": [{"volume": "a", "path": "/data", "read_only": "yes"}]},
        *("volumes.0.read_only", ProblemCode.TYPE, "true or false"),
    ),
    "too many volumes": (
        {"volumes": [f"a:/data{n}" for n in range(17)]},
        *("volumes", ProblemCode.TYPE, "at most 16"),
    ),
    "field is a number": ({7: 1}, "7", ProblemCode.UNKNOWN, "remove it"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_bad_field_gives_one_error_with_its_field_its_code_and_what_to_write(case):
    fields, field, code, sentence = BAD[case]
    (error,) = problems(GOOD | fields)
    assert (error.field, error.code) == (field, code), error
    assert sentence in error.sentence


def test_pasted_blanks_are_no_part_of_a_name():
    read = parse_request(GOOD | {"image": "busybox ", "name": " sum", "priority": "low\t"}, LIMITS)
    assert (read.image, read.name, read.priority) == ("busybox", "sum", "low")


def test_the_names_of_answers_are_read_with_their_unit():
    spelled = {"cpu_milli": 500, "memory_mib": 4_096, "shm_mib": 64, "disk_mib": 1_024}
    read = parse_request(GOOD | spelled | {"time_limit_seconds": 90, "grace_seconds": 5}, LIMITS)
    plain = {"cpu": "500m", "memory": "4GiB", "shm": "64MiB", "disk": "1GiB"}
    assert read == parse_request(GOOD | plain | {"time_limit": "90s", "grace": "5s"}, LIMITS)
    assert read.limit_is_chosen


@pytest.mark.parametrize("field", ["project", "name", "image", "device"])
def test_a_field_that_must_be_there_is_named_when_it_is_missing(field):
    (error,) = problems({k: v for k, v in GOOD.items() if k != field})
    assert (error.field, error.code) == (field, ProblemCode.MISSING)
    assert error.sentence == f"{field} is required"


@pytest.mark.parametrize("body", [None, [], "name: sum", 7, [GOOD]])
def test_what_is_no_object_is_refused_as_a_whole(body):
    first = problems(body)[0]
    assert (first.field, first.code) == ("", ProblemCode.TYPE)


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
    assert (error.field, error.code) == (f"env.{name}", ProblemCode.RESERVED)
    assert error.sentence == f"{name} is set by Tessera: remove it"


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
        ("gpus", ProblemCode.UNKNOWN),
        ("project", ProblemCode.MISSING),
        ("name", ProblemCode.VALUE),
        ("image", ProblemCode.FORBIDDEN),
        ("command", ProblemCode.TYPE),
        ("replicas", ProblemCode.RANGE),
        ("device", ProblemCode.COMBINATION),
        ("memory", ProblemCode.VALUE),
        ("time_limit", ProblemCode.VALUE),
        ("env.RANK", ProblemCode.RESERVED),
        ("env.A", ProblemCode.TYPE),
    ]


def test_the_refusal_as_a_text_names_every_field():
    with pytest.raises(InvalidRequest) as refused:
        parse_request(GOOD | {"replicas": 0, "cpu": "x"}, LIMITS)
    assert str(refused.value).startswith("replicas: write a whole number from 1 to 64; cpu: ")


def test_an_endless_name_is_cut_in_the_answer():
    (error,) = problems(GOOD | {"x" * 10_000: 1})
    assert error.field == "x" * 64
    (error,) = problems(GOOD | {"env": {"9" * 10_000: "1"}})
    assert error.field == "env." + "9" * 64


def test_a_limit_without_progress_is_not_above_that_of_the_installation():
    """Unless that does not hold for the job."""
    limits = RequestLimits(hung_stop_seconds=7_200)
    gang = GOOD | {"image": "sum", "replicas": 2, "progress_limit": "3h"}
    (error,) = problems(gang, limits)
    assert (error.field, error.code) == ("progress_limit", ProblemCode.RANGE)
    assert "after 2h" in error.sentence
    for changes in (error.suggestion, {"replicas": 1}, {"progress_limit": " 2H : STOP "}):
        parse_request(gang | dict(changes), limits)


def test_a_limit_without_progress_that_is_typed_without_its_unit_is_offered_in_minutes():
    for typed, offered in (("45", "45m"), ("3", "10m"), ("half", None)):
        (error,) = problems(GOOD | {"image": "busybox", "progress_limit": typed})
        assert error.suggestion.get("progress_limit") == offered
