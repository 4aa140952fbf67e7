"""`tessera advise`: the table, the next command, and files that are none."""

from __future__ import annotations

import json

from tests.unit.cli.fake_rest import Rest, problem

PARTS = [{"name": "weights", "bytes": 16 << 30, "formula": "2 bytes", "reference": "ZeRO"}]


def a_device(profile: str = "2g.35gb", **fields) -> dict:
    row = {
        "board": "H200-141GB",
        "model": "H200",
        "kind": "mig",
        "profile": profile,
        "memory_bytes": 33 << 30,
        "needed_bytes": 20 << 30,
        "gpus": 1,
        "nodes": 1,
        "fits": True,
        "usable": True,
        "obstacle": "",
        "free": 3,
        "parts": PARTS,
        "serving": None,
        "start": {"at_once": True, "code": "", "estimate": None},
        "request": {
            "name": "lora-llama3-8b",
            "device": {"mig": profile, "models": ["H200"]},
            "replicas": 1,
            "launcher": "none",
            "command": ["python", "train.py"],
        },
        "form": "/request/?fill=x",
    }
    return row | fields


TOO_SMALL = a_device("1g.18gb", fits=False, usable=False, request={}, memory_bytes=16 << 30)


def advising(*devices: dict) -> Rest:
    return Rest().on("POST", "advice", {"project": "vision", "devices": list(devices)})


def test_the_smallest_comes_first_with_the_command_that_requests_it():
    rest = advising(a_device(), TOO_SMALL | {"start": None})
    done = rest.run("advise", "--model", "llama3-8b", "--task", "lora", "--batch", "8")
    assert rest.body("POST", "advice") == {"model": "llama3-8b", "task": "lora", "batch": 8}
    first, second = done.stdout.splitlines()[1:3]
    assert "H200 2g.35gb" in first and "20.0GiB" in first and "now" in first
    assert "no: 4.0GiB too small" in second
    assert "tessera submit" in done.stderr and "--mig 2g.35gb" in done.stderr
    assert "-- python train.py" in done.stderr
    wide = rest.run("advise", "--model", "m", "--task", "lora", "-o", "wide").stdout
    assert "WEIGHTS" in wide and "16.0GiB" in wide
    names = rest.run("advise", "--model", "m", "--task", "lora", "-o", "name").stdout
    assert names == "H200 2g.35gb\nH200 1g.18gb\n"


def test_how_fast_a_server_is_is_told():
    serving = {"tokens_per_second": 1234.5, "limits": "memory bandwidth", "max_concurrency": 41}
    done = advising(a_device(serving=serving)).run("advise", "--model", "m", "--task", "inference")
    assert "About 1,234 tokens a second together, limited by memory bandwidth" in done.stderr


def test_a_training_of_known_length_has_time_and_cost():
    run = {"step_seconds": 1.234, "steps": 10, "seconds": 7_260, "gpu_hours": 2.02, "cost": 5.04}
    rest = Rest().on(
        "POST",
        "advice",
        {
            "project": "vision",
            "currency": "EUR",
            "devices": [
                a_device(training=run | {"system_kwh": 2.8}),
                a_device("", training=run | {"system_kwh": 3, "cost": None}),
                TOO_SMALL | {"start": None, "training": None},
            ],
        },
    )
    done = rest.run(
        "advise", "--config-file", "J-1:config.json", "--task", "lora", "--tokens", "99"
    )
    body = {"config_file": "J-1:config.json", "task": "lora", "tokens": 99}
    assert rest.body("POST", "advice") == body
    heads, first, second, third = done.stdout.splitlines()[:4]
    assert all(word in heads for word in ("STEP", "TIME", "GPU-HOURS", "COST"))
    assert "1.23s" in first and "2.02" in first and "5.04 EUR" in first
    assert "EUR" not in second and "EUR" not in third


def test_where_nothing_holds_it_no_command_is_told():
    done = advising(TOO_SMALL | {"start": None}).run("advise", "--model", "m", "--task", "lora")
    assert "Nothing here holds it" in done.stderr and "tessera submit" not in done.stderr


def test_a_config_is_sent_as_json_and_anything_else_is_refused_before_it_is(tmp_path):
    rest, file = advising(a_device()), tmp_path / "config.json"
    file.write_text('{"architectures": ["LlamaForCausalLM"]}')
    assert rest.run("advise", "--config", str(file), "--task", "lora").exit_code == 0
    assert rest.body("POST", "advice")["config"] == {"architectures": ["LlamaForCausalLM"]}
    for text in ("[]", "no", json.dumps({"a": "b" * 300_000})):
        file.write_text(text)
        done = rest.run("advise", "--config", str(file), "--task", "lora")
        assert done.exit_code == 2 and "cannot be read" in done.stderr
    assert len(rest.sent("POST", "advice")) == 1


def test_a_refusal_names_the_field():
    refused = problem(400, "invalid", "model: unknown", errors=[])
    done = Rest().on("POST", "advice", refused).run("advise", "--model", "x", "--task", "lora")
    assert done.exit_code == 2 and "model: unknown" in done.stderr
