"""The device of a request: exactly one kind of device, and a precise answer to every other."""

import pytest

from scheduler.core.model.snapshot import DeviceRequest, Isolation
from scheduler.core.request import InvalidRequest, ProblemCode, RequestLimits, parse_request

GOOD = {"project": "p", "name": "n", "image": "i", "command": ["c"]}


def read(device, **fields):
    return parse_request(GOOD | {"device": device} | fields, RequestLimits()).device


def problems(device, **fields):
    with pytest.raises(InvalidRequest) as refused:
        read(device, **fields)
    return [(e.field, e.code, e.sentence) for e in refused.value.errors]


ONE = "write exactly one of gpus, mig, mps and memory; the request has "
BAD = {
    "a text": ("2g.35gb", "device", ProblemCode.TYPE, "{mig: 2g.35gb}"),
    "null": (None, "device", ProblemCode.TYPE, "not be null"),
    "nothing": ({}, "device", ProblemCode.COMBINATION, ONE + "none"),
    "two kinds": (
        {"gpus": 1, "mig": "2g.35gb"},
        "device",
        ProblemCode.COMBINATION,
        "whole GPUs, MIG",
    ),
    "three": (
        {"memory": "1GiB", "mps": {}, "gpus": 1},
        "device",
        ProblemCode.COMBINATION,
        "one of",
    ),
    "only a model": ({"models": ["H200"]}, "device", ProblemCode.COMBINATION, ONE + "none"),
    "unknown profile": ({"mig": "half"}, "device.mig", ProblemCode.VALUE, "2g.35gb"),
    "profile of no slice": ({"mig": "0g.5gb"}, "device.mig", ProblemCode.VALUE, "2g.35gb"),
    "profile in capitals": ({"mig": "2G.35GB"}, "device.mig", ProblemCode.VALUE, "2g.35gb"),
    "profile as a list": ({"mig": ["2g.35gb"]}, "device.mig", ProblemCode.VALUE, "2g.35gb"),
    "no GPU": ({"gpus": 0}, "device.gpus", ProblemCode.RANGE, "1 to 1024"),
    "minus one GPU": ({"gpus": -1}, "device.gpus", ProblemCode.RANGE, "1 to 1024"),
    "1025 GPUs": ({"gpus": 1_025}, "device.gpus", ProblemCode.RANGE, "1 to 1024"),
    "half a GPU": ({"gpus": 0.5}, "device.gpus", ProblemCode.RANGE, "whole number"),
    "GPUs as text": ({"gpus": "2"}, "device.gpus", ProblemCode.RANGE, "whole number"),
    "GPUs true": ({"gpus": True}, "device.gpus", ProblemCode.RANGE, "whole number"),
    "potatoes": ({"memory": "5 potatoes"}, "device.memory", ProblemCode.VALUE, "64GiB"),
    "shares as a number": (
        {"mps": 25},
        "device.mps",
        ProblemCode.TYPE,
        "{threads: 25, memory: 20GiB}",
    ),
    "shares without memory": ({"mps": {"threads": 25}}, "device.mps", ProblemCode.TYPE, "memory"),
    "a share that is isolated": (
        {"mps": {"threads": 25, "memory": "1GiB"}, "isolation": "hardware"},
        *("device.isolation", ProblemCode.COMBINATION, "request mig"),
    ),
    "models as a text": (
        {"gpus": 1, "models": "H200"},
        *("device.models", ProblemCode.VALUE, "[H200, H100]"),
    ),
    "model with a semicolon": (
        {"gpus": 1, "models": ["H200;"]},
        *("device.models", ProblemCode.VALUE, "list of models"),
    ),
    "isolation unknown": (
        {"gpus": 1, "isolation": "none"},
        *("device.isolation", ProblemCode.VALUE, "hardware, any"),
    ),
    "unknown field": ({"gpus": 1, "vram": 80}, "device.vram", ProblemCode.UNKNOWN, "remove it"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_device_gives_one_error_with_its_field_its_code_and_what_to_write(case):
    device, field, code, sentence = BAD[case]
    ((at, kind, said),) = problems(device)
    assert (at, kind) == (field, code)
    assert sentence in said


@pytest.mark.parametrize(
    ("mps", "field", "code"),
    [
        ({"threads": 0, "memory": "1GiB"}, "device.mps.threads", ProblemCode.RANGE),
        ({"threads": 101, "memory": "1GiB"}, "device.mps.threads", ProblemCode.RANGE),
        ({"threads": 25, "memory": "1 gigabyte"}, "device.mps.memory", ProblemCode.VALUE),
    ],
)
def test_a_share_names_the_part_that_is_wrong(mps, field, code):
    assert [(at, kind) for at, kind, _ in problems({"mps": mps})] == [(field, code)]


def test_every_problem_of_a_device_is_told_at_once_in_the_order_it_was_written():
    unknown = {f"z{i}": 1 for i in (3, 1, 4, 2, 9, 5, 7, 6)}
    body = unknown | {"gpus": 0, "models": "x", "isolation": "x"}
    told = [field for field, _, _ in problems(body)]
    parts = ["device.models", "device.isolation", "device.gpus"]
    assert told == [f"device.{name}" for name in unknown] + parts


@pytest.mark.parametrize(
    ("device", "value"),
    [
        ({"gpus": 8}, DeviceRequest(gpus=8)),
        ({"mig": "1g.18gb+me"}, DeviceRequest(mig="1g.18gb+me")),
        ({"memory": "40 GiB"}, DeviceRequest(memory_mib=40_960)),
        (
            {"mps": {"threads": 25, "memory": "20GiB"}},
            DeviceRequest(mps_threads=25, mps_memory_mib=20_480, isolation=Isolation.ANY),
        ),
        (
            {"gpus": 1, "models": ["H200", "H100-80GB"], "isolation": "any"},
            DeviceRequest(gpus=1, models=("H200", "H100-80GB"), isolation=Isolation.ANY),
        ),
    ],
)
def test_one_way_of_asking_is_read_as_it_was_written(device, value):
    assert read(device) == value


def test_torchrun_starts_one_process_for_each_gpu_unless_told():
    def processes(**fields):
        body = GOOD | {"device": {"gpus": 4}} | fields
        return parse_request(body, RequestLimits()).processes

    assert processes() == 1
    assert processes(launcher="torchrun") == 4
    assert processes(launcher="torchrun", processes=2) == 2
    assert processes(launcher="torchrun", device={"mig": "2g.35gb"}) == 1


def test_more_processes_than_gpus_are_refused_with_both_numbers():
    ((field, code, sentence),) = problems({"gpus": 2}, launcher="torchrun", processes=3)
    assert (field, code) == ("processes", ProblemCode.COMBINATION)
    assert sentence.startswith("3 processes need 3 GPUs, and a replica has 2: ")
