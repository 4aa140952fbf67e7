"""`tessera submit` of many requests: one call, or several, and what is refused before them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import httpx
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


@dataclass
class Portal:
    """Takes so many jobs a minute, as the throttle of REST does, and each key once."""

    rest: Rest
    rate: int = 1_200
    jobs: dict[str, list[dict]] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)

    def __call__(self, call: httpx.Request) -> httpx.Response:
        minute, second = divmod(sum(self.rest.pauses), 60)
        body, key = json.loads(call.content), call.headers["Idempotency-Key"]
        size = len(body["jobs"]) * body.get("count", 1)
        if size > self.rate:
            return problem(400, "too_many", f"at most {self.rate} in one call")
        if self.taken.get(minute, 0) + size > self.rate:
            busy = problem(429, "throttled")
            busy.headers["Retry-After"] = str(int(60 - second))
            return busy
        self.taken[minute] = self.taken.get(minute, 0) + size
        count = sum(map(len, self.jobs.values()))
        new = [{"id": f"J-{count + number}"} for number in range(size)]
        results = self.jobs.setdefault(key, new)
        return httpx.Response(201, json={"results": results, "submitted": size})

    @property
    def ids(self) -> list[str]:
        return [job["id"] for part in self.jobs.values() for job in part]


def a_portal(rate: int = 1_200) -> Portal:
    rest = Rest().on("GET", "projects", PROJECTS)
    portal = Portal(rest, rate)
    rest.on("POST", "jobs/bulk", portal)
    return portal


@pytest.mark.parametrize("rate", [1_200, 1_000, 700, 250])
def test_5000_jobs_are_submitted_as_fast_as_the_portal_takes_them(rate):
    portal = a_portal(rate)
    done = portal.rest.run("submit", "--count", "5000", *FLAGS)
    assert done.exit_code == 0, done.stderr
    assert len(portal.ids) == 5_000
    assert done.stdout.split() == portal.ids
    assert "Submitted 1,200 of 5,000 jobs; the portal takes more in 60 s" in done.stderr or (
        rate != 1_200
    )
    assert "Submitted 5,000 jobs" in done.stderr


def test_what_was_cut_short_goes_on_with_its_key_and_submits_nothing_twice():
    portal = a_portal()
    portal.rest.on("POST", "jobs/bulk", *[portal] * 4, httpx.ReadTimeout("gone"))
    cut = portal.rest.run("submit", "--count", "5000", *FLAGS)
    assert cut.exit_code == 6
    assert 0 < len(cut.stdout.split()) == len(portal.ids) < 5_000
    (key,) = {
        call.headers["Idempotency-Key"][:36] for call in portal.rest.sent("POST", "jobs/bulk")
    }
    said = f"{len(portal.ids):,} of 5,000 jobs are submitted. The same command with --key {key} "
    assert said in cut.stderr

    portal.rest.on("POST", "jobs/bulk", portal)
    done = portal.rest.run("submit", "--count", "5000", "--key", key, *FLAGS)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.split() == portal.ids
    assert len(set(portal.ids)) == 5_000


def test_a_part_that_is_refused_ends_the_submit_and_says_what_came_before():
    portal = a_portal(100_000)
    full = problem(400, "pending_limit", "You have 1,200 waiting jobs, the most of this project")
    portal.rest.on("POST", "jobs/bulk", portal, portal, full)
    done = portal.rest.run("submit", "--count", "5000", "-o", "json", *FLAGS)
    assert done.exit_code == 4
    assert json.loads(done.stdout)["submitted"] == 1_200
    assert "1,200 of 5,000 jobs are submitted" in done.stderr
    assert "pending_limit" in done.stderr


def test_a_dry_run_of_5000_copies_tries_one():
    rest = Rest().on("GET", "projects", PROJECTS)
    one = {"jobs": 1, "awaiting_approval": 0, "units": 56_000, "gpu_hours": "0.5000"}
    rest.on("POST", "jobs/bulk", one)
    shown = rest.run("submit", "--count", "5000", "--dry-run", "-o", "json", *FLAGS)
    assert json.loads(shown.stdout) == {
        "jobs": 5_000,
        "awaiting_approval": 0,
        "units": 280_000_000,
        "gpu_hours": "2500.0000",
    }
    assert len(rest.sent("POST", "jobs/bulk")) == 1
