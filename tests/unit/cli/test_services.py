"""`tessera service`: a request file and options become calls of REST."""

from __future__ import annotations

import httpx

from tests.unit.cli.fake_rest import Rest

ROW = {
    "id": "S-5",
    "name": "llm",
    "project": "vision",
    "owner": "olga",
    "host": "llm--s5.apps.example",
    "ready": 1,
    "copies": 2,
    "min_copies": 0,
    "max_copies": 4,
    "problem": "J-12 ended as failed",
    "version": 3,
    "jobs": [
        {"job": "J-13", "status": "ready", "generation": 2, "ready_at": "2026-11-27T02:00:00Z"}
    ],
    "busyness": {
        "waiting": 0,
        "open_calls": 2,
        "calls_per_second": 1.5,
        "p50_ms": 11.4,
        "p99_ms": None,
        "failed_calls": 0,
    },
}


def test_a_request_file_becomes_a_service(tmp_path):
    file = tmp_path / "vllm.yaml"
    file.write_text("image: vllm:1\ncommand: [vllm]\ndevice: {gpus: 1}\n")
    rest = Rest().on("POST", "services", ROW)
    done = rest.run(
        *("service", "create", "llm", "-f", str(file), "-p", "vision", "--port", "8000"),
        *("--health", "/health", "--min", "0", "--max", "4", "--calls", "16"),
    )
    assert (done.exit_code, done.stdout) == (0, "S-5\n"), done.stderr
    assert rest.body("POST", "services") == {
        "name": "llm",
        "request": {
            "image": "vllm:1",
            "command": ["vllm"],
            "device": {"gpus": 1},
            "project": "vision",
        },
        "min_copies": 0,
        "max_copies": 4,
        "calls_per_copy": 16,
        "port": 8000,
        "health_path": "/health",
    }


def test_services_are_listed_and_shown():
    rest = Rest().on("GET", "services", {"results": [ROW]}).on("GET", "services/S-5", ROW)
    listed = rest.run("service", "list").stdout
    assert "S-5" in listed and "1/2" in listed and "llm--s5.apps.example" in listed
    shown = rest.run("service", "show", "S-5").stdout
    assert "J-13" in shown and "J-12 ended as failed" in shown and "p50 11 ms" in shown


def test_of_a_portal_that_does_not_count_failed_calls_none_are_shown():
    busy = {name: value for name, value in ROW["busyness"].items() if name != "failed_calls"}
    rest = Rest().on("GET", "services/S-5", ROW | {"busyness": busy})
    shown = rest.run("service", "show", "S-5").stdout
    assert "p99 none" in shown and "failed in the last minute" not in shown


def test_a_change_names_the_version_that_was_read():
    rest = Rest().on("GET", "services/S-5", ROW).on("PATCH", "services/S-5", ROW)
    assert rest.run("service", "change", "S-5", "--max", "8").exit_code == 0
    assert rest.body("PATCH", "services/S-5") == {"max_copies": 8}
    (sent,) = rest.sent("PATCH", "services/S-5")
    assert sent.headers["If-Match"] == '"3"'
    assert rest.run("service", "change", "S-5").exit_code == 2


def test_a_canary_is_given_some_of_the_calls_shown_and_promoted():
    busy = ROW["busyness"] | {"failed_calls": 3}
    split = ROW | {
        "canary": "S-9",
        "canary_percent": 10,
        "canary_ready": 1,
        "canary_problem": "",
        "canary_busyness": busy,
        "is_canary_promoted": False,
    }
    rest = Rest().on("GET", "services/S-5", split).on("PATCH", "services/S-5", split)
    rest.on("POST", "services/S-5/promote", split)
    done = rest.run("service", "change", "S-5", "--canary", "S-9", "--percent", "10")
    assert done.exit_code == 0, done.stderr
    assert rest.body("PATCH", "services/S-5") == {"canary": "S-9", "canary_percent": 10}
    shown = rest.run("service", "show", "S-5").stdout
    assert "S-9 gets 10 of 100 new calls, copies ready: 1" in shown
    assert "3 failed in the last minute" in shown and "0 failed in the last minute" in shown
    assert rest.run("service", "promote", "S-5").exit_code == 0
    assert len(rest.sent("POST", "services/S-5/promote")) == 1
    rest = Rest().on("GET", "services/S-5", split).on("PATCH", "services/S-5", split)
    assert rest.run("service", "change", "S-5", "--canary", "none").exit_code == 0
    assert rest.body("PATCH", "services/S-5") == {"canary": ""}


def test_a_service_is_ended():
    rest = Rest().on("DELETE", "services/S-5", httpx.Response(204))
    assert rest.run("service", "end", "S-5").exit_code == 0
    assert len(rest.sent("DELETE", "services/S-5")) == 1
