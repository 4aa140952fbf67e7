"""`tessera submit` of many requests: one call, and what is refused before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.fake_rest import Rest, problem

PROJECTS = {"results": [{"slug": "vision", "archived": False}]}
TOTALS = {"jobs": 3, "awaiting_approval": 1, "units": 56_000, "gpu_hours": "1.5000"}
MANY = {"results": [{"id": "J-12"}, {"id": "J-13"}], "submitted": 2}
FLAGS = ("--image", "pytorch:2.7", "--gpus", "2", "--", "python", "train.py")
STREAM = """
image: a
command: [x]
device: {gpus: 1}
---
image: b
command: [y]
device: {gpus: 4}
time_limit: 1h
"""


def a_rest() -> Rest:
    rest = Rest().on("GET", "projects", PROJECTS)
    return rest.on(
        "POST", "jobs/bulk", lambda call: TOTALS if "dry_run" in call.url.params else MANY
    )


def test_a_count_is_one_call_and_one_id_a_line():
    rest = a_rest()
    done = rest.run("submit", "--count", "2", *FLAGS)
    assert (done.exit_code, done.stdout) == (0, "J-12\nJ-13\n")
    body = rest.body("POST", "jobs/bulk")
    assert (body["count"], len(body["jobs"])) == (2, 1)
    assert body["jobs"][0]["command"] == ["python", "train.py"]
    assert len(rest.sent("POST", "jobs/bulk")[0].headers["Idempotency-Key"]) == 36
    assert not rest.sent("POST", "jobs")


@pytest.mark.parametrize("text", [STREAM, "- {image: a, command: [x]}\n- {image: b}\n"])
def test_a_file_with_many_requests_is_one_call_and_flags_override_each(text, tmp_path: Path):
    rest, file = a_rest(), tmp_path / "jobs.yaml"
    file.write_text(text)
    done = rest.run("submit", "-f", str(file), "--time", "2h", "--project", "chemistry")
    assert done.exit_code == 0, done.stderr
    jobs = rest.body("POST", "jobs/bulk")["jobs"]
    assert [job["image"] for job in jobs] == ["a", "b"]
    assert {(job["time_limit"], job["project"]) for job in jobs} == {("2h", "chemistry")}


def test_a_dry_run_and_the_question_add_up(tmp_path: Path):
    rest = a_rest()
    shown = rest.run("submit", "--count", "3", "--dry-run", *FLAGS)
    assert "1.5000" in shown.stdout
    assert all("dry_run" in call.url.params for call in rest.sent("POST", "jobs/bulk"))
    refused = rest.run("submit", "--count", "3", *FLAGS, asks=True, input="n\n")
    assert refused.exit_code == 1
    assert "Nothing was submitted." in refused.stderr
    assert all("dry_run" in call.url.params for call in rest.sent("POST", "jobs/bulk"))
    assert rest.run("submit", "--count", "3", *FLAGS, asks=True, input="y\n").exit_code == 0


def test_what_makes_sense_for_one_job_only_is_refused(tmp_path: Path):
    rest, file = a_rest(), tmp_path / "jobs.yaml"
    file.write_text(STREAM)
    waiting = rest.run("submit", "--count", "2", "--wait", *FLAGS)
    assert (waiting.exit_code, "--wait follows one job" in waiting.stderr) == (2, True)
    assert rest.run("submit", "-f", str(file), "--", "x").exit_code == 2
    file.write_text("image: a\n---\n7\n")
    assert "request_unreadable" in rest.run("submit", "-f", str(file)).stderr
    assert not rest.sent("POST", "jobs/bulk")


def test_each_problem_is_shown_with_its_index():
    errors = [{"field": "jobs.1.device", "code": "impossible", "message": "no such GPU"}]
    detail = "1 of 2 requests are refused, so none was submitted"
    rest = a_rest().on("POST", "jobs/bulk", problem(400, "bulk_refused", detail, errors=errors))
    done = rest.run("submit", "--count", "2", *FLAGS)
    assert done.exit_code == 2
    assert "jobs.1.device" in done.stderr
    assert "no such GPU" in done.stderr
