"""Questions as a file: answered from their inputs, or with what is missing."""

import json
import subprocess
import sys

import pytest

from scheduler.advisor.__main__ import main
from scheduler.advisor.cases.answers import CATEGORIES, answer


def value(category, unit, **inputs):
    found = answer({"id": "x", "category": category, "unit": unit, "inputs": inputs})
    assert "error" not in found, found
    return found["value"]


@pytest.mark.parametrize(
    ("category", "unit", "inputs", "expected"),
    [
        ("memory", "GB", {"params": 7.5e9, "zero_stage": 2, "dp": 64}, 16.64),
        ("memory", "MiB load", {"model": "bert-base-cased", "dtype": "float32"}, 413.17),
        ("memory", "GiB load", {"load_gib_fp32": 297.12, "dtype": "int8"}, 74.28),
        ("bytes_per_param", "bytes", {"kind": "fp32-nodist"}, 16),
        ("bytes_per_param", "bytes", {"strategy": "tp", "n": 4, "dtype": "fp32"}, 4),
        ("kv_cache", "KiB", {"layers": 40, "hidden": 5120, "bytes": 2}, 800),
        ("kv_cache", "MB", {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8}, 0.131072),
        ("comm", "ms", {"bytes_gb": 26, "n": 8, "bandwidth": "300 GB/s per direction"}, 151.67),
        ("comm", "GB", {"params": 13e9, "bytes": 2, "n": 8}, 45.5),
        ("comm", "ms", {"bytes": 2**32, "nodes": 4, "gpus_per_node": 8, "nic_gbps": 50}, 16.106),
        ("comm", "busbw/algbw", {"collective": "reduce_scatter", "n": 8}, 0.875),
        ("pipeline", "fraction", {"p": 8, "m": 32, "definition": "over_total"}, 0.17949),
        ("pipeline", "fraction", {"p": 8, "m": 32, "v": 2, "definition": "over_ideal"}, 0.109375),
        ("layout", "size", {"gpus": 1024, "tp": 8, "pp": 8, "cp": 2}, 8),
        ("time", "days", {"params": 175e9, "tokens": 3e11, "gpus": 1024, "tflops": 140}, 33.9),
    ],
)
def test_a_case_is_answered_from_its_inputs(category, unit, inputs, expected):
    if "strategy" in inputs:
        inputs = inputs | {"optimizer": "adam"}
    assert value(category, unit, **inputs) == pytest.approx(expected, rel=0.003)


def test_thirteen_billion_parameters_do_not_train_on_one_gpu_nor_in_no_time():
    assert value("feasibility", "fits", params=13e9, gpu="A100-80GB", gpus=1) is False
    step = {"tokens_per_step": 65_536, "step_s": 0.85, "gpus": 1, "peak_tflops": 312}
    assert value("feasibility", "achievable", params=13e9, **step) is False


def test_what_a_case_expects_is_not_read():
    case = {"id": "x", "category": "pipeline", "unit": "fraction", "expected": 7}
    case["inputs"] = {"p": 3, "m": 4, "definition": "over_ideal"}
    assert answer(case)["value"] == 0.5


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({}, "category must be one of"),
        ({"category": "memory", "inputs": {}}, "unit is missing"),
        ({"category": "memory", "unit": "GB", "inputs": 3}, "inputs must be an object"),
        ({"category": "memory", "unit": "GB", "inputs": {}}, "give zero_stage, a shape"),
        ({"category": "comm", "unit": "ms", "inputs": {"bytes": 1}}, "give busbw or bandwidth"),
        ({"category": "time", "unit": "s", "inputs": {"model": "gpt-9"}}, "not known"),
        ({"category": "layout", "unit": "n", "inputs": {"gpus": 7, "tp": 2}}, "do not divide"),
        (
            {"category": "pipeline", "unit": "n", "inputs": {"p": 0, "m": 1}},
            "definition is missing",
        ),
    ],
)
def test_a_case_that_cannot_be_answered_says_what_is_missing(case, words):
    assert words in answer({"id": "x", **case})["error"]


@pytest.mark.parametrize("bad", [-1, 1e30, float("nan"), float("inf"), "8", True, [1], 0, None, ""])
@pytest.mark.parametrize("category", CATEGORIES)
def test_nonsense_is_an_error_and_never_an_exception(category, bad):
    names = (
        "params params_b layers hidden heads kv_heads seq vocab tp pp cp dp gpus micro_batch "
        "global_batch virtual_stages zero_stage n bytes busbw nic_gbps nodes gpus_per_node p m v "
        "tflops peak_tflops iteration_s tokens step_s tokens_per_step load_gib largest_layer_params"
    )
    inputs = dict.fromkeys(names.split(), bad)
    for unit in ("GB", "s", "busbw/algbw", "billion", "nonsense", " "):
        found = answer({"id": "x", "category": category, "unit": unit, "inputs": inputs})
        assert "error" in found or isinstance(found["value"], int | float | bool)


def test_the_command_answers_a_file_line_by_line(tmp_path):
    case = {"id": "a", "category": "layout", "unit": "size", "inputs": {"gpus": 64, "tp": 4}}
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"cases": [case, {"id": "b"}]}))
    command = [sys.executable, "-m", "scheduler.advisor", "cases", str(file), "--json"]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert json.loads(lines[0]) == {"id": "a", "value": 16, "unit": "size"}
    assert json.loads(lines[1])["error"].startswith("category must be")


@pytest.mark.parametrize("content", ["{", "7", '{"cases": 3}', "[1]", "[" * 100_000])
def test_a_file_that_has_no_cases_is_refused(tmp_path, capsys, content):
    file = tmp_path / "cases.json"
    file.write_text(content)
    with pytest.raises(SystemExit):
        main(["cases", str(file)])
    assert "can't be read" in capsys.readouterr().err
