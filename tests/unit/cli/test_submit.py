"""`tessera submit` over a REST in memory: what is sent, printed and waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.fake_rest import Rest, a_row, an_end, problem

PROJECTS = {"results": [{"slug": "vision", "archived": False}]}
POSSIBLE = {"possible": True, "reason": None, "approval": None, "request": {"project": "vision"}}
FLAGS = ("--image", "pytorch:2.7", "--gpus", "2", "--", "python", "train.py")


def a_rest() -> Rest:
    rest = Rest().on("GET", "projects", PROJECTS)

    def post(request):
        return POSSIBLE if "dry_run" in request.url.params else a_row()

    return rest.on("POST", "jobs", post).on("GET", "jobs/J-12", a_row())


def test_submit_sends_what_the_flags_say_and_prints_the_name_alone():
    rest = a_rest()
    done = rest.run("submit", "--time", "1:30:00", "-N", "2", "-e", "A=1", "--mem", "64G", *FLAGS)
    assert (done.exit_code, done.stdout) == (0, "J-12\n")
    assert rest.body("POST", "jobs") == {
        "project": "vision",
        "name": "train",
        "image": "pytorch:2.7",
        "command": ["python", "train.py"],
        "replicas": 2,
        "device": {"gpus": 2},
        "memory": "64G",
        "time_limit": "1:30:00",
        "env": {"A": "1"},
    }
    assert len(rest.sent("POST", "jobs")[0].headers["Idempotency-Key"]) == 36


def test_what_is_probably_wrong_is_said_and_submitted():
    warning = {"field": "env", "sentence": "HF_TOKEN in env looks like a secret"}
    rest = a_rest().on("POST", "jobs", a_row(warnings=[warning]))
    done = rest.run("submit", *FLAGS)
    assert (done.exit_code, done.stdout) == (0, "J-12\n")
    assert "Warning: HF_TOKEN in env looks like a secret" in done.stderr


def test_a_clock_of_two_numbers_and_two_names_of_a_flag_are_refused_in_words():
    rest = a_rest()
    assert "1h30m or, as in Slurm, 1m30s" in rest.run("submit", "--time", "1:30", *FLAGS).stderr
    twice = rest.run("submit", "--memory", "64GiB", "--mem=32GiB", *FLAGS).stderr
    assert "--memory and --mem are the same option: write one of them" in " ".join(twice.split())
    assert not rest.sent("POST", "jobs")


def test_the_last_of_one_flag_counts_and_the_commands_own_words_are_its_own():
    rest = a_rest()
    rest.run("submit", "--time", "1h", "--time", "2h", *FLAGS, "--mem", "1", "--memory", "2")
    assert rest.body("POST", "jobs")["time_limit"] == "2h"


def test_a_flag_replaces_the_field_of_a_file_however_it_is_spelled(tmp_path: Path):
    rest, file = a_rest(), tmp_path / "job.yaml"
    file.write_text("memory_mib: 4096\nimage: a\ncommand: [x]\ndevice: {gpus: 1}\n")
    rest.run("submit", "-f", str(file), "--mem", "8GiB")
    assert rest.body("POST", "jobs")["memory"] == "8GiB"
    assert "memory_mib" not in rest.body("POST", "jobs")


def test_the_command_keeps_its_own_flags():
    rest = a_rest()
    rest.run("submit", "--mig", "1g.18gb", "--image", "i", "python", "-u", "x.py", "--gpus", "9")
    assert rest.body("POST", "jobs")["command"] == ["python", "-u", "x.py", "--gpus", "9"]
    assert rest.body("POST", "jobs")["device"] == {"mig": "1g.18gb"}


def test_flags_win_over_the_file_and_a_device_is_taken_whole(tmp_path: Path):
    rest, file = a_rest(), tmp_path / "job.yaml"
    wanted = {"project": "speech", "image": "a", "command": ["x"], "name": "n", "env": {"A": "1"}}
    file.write_text(yaml.safe_dump(wanted | {"device": {"mig": "1g.18gb", "models": ["H200"]}}))
    rest.run("submit", "-f", str(file), "--gpus", "1", "-e", "B=2", "--image", "b")
    assert rest.body("POST", "jobs") == wanted | {
        "image": "b",
        "env": {"A": "1", "B": "2"},
        "device": {"gpus": 1, "models": ["H200"]},
    }


def test_a_slurm_script_is_imported_and_what_was_ignored_is_said(tmp_path: Path):
    rest, file = a_rest(), tmp_path / "train.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH --gres=gpu:4 --qos=high\npython train.py\n")
    done = rest.run("submit", "--image", "i", str(file), "--lr", "3")
    sent = rest.body("POST", "jobs")
    assert sent["device"] == {"gpus": 4} and sent["name"] == "train"
    assert sent["command"][-2:] == ["--lr", "3"]
    assert "--qos high" in done.stderr and done.stdout == "J-12\n"


def test_a_file_from_standard_input():
    rest = a_rest()
    done = rest.run("submit", "-f", "-", input="image: i\ncommand: [x]\nproject: p\n")
    assert done.exit_code == 0 and rest.body("POST", "jobs")["project"] == "p"


@pytest.mark.parametrize(
    "text", ["[1, 2]", "a: [", "just words", "1: 2", "&a [*a, *a]", "!!python/object:os.x {}"]
)
def test_a_file_that_is_no_request_is_refused_before_anything_is_sent(tmp_path: Path, text: str):
    rest, file = a_rest(), tmp_path / "job.yaml"
    file.write_text(text)
    done = rest.run("submit", "-f", str(file))
    assert done.exit_code == 2 and "request_unreadable" in done.stderr
    assert not rest.calls


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "/nowhere/at/all.yaml"),
        ("--mps", "lots", "--", "x"),
        ("--env", "NOT_SET_ANYWHERE", "--", "x"),
        ("--time", "1:30", "--", "x"),
        ("--memory", "64GiB", "--mem", "32GiB", "--", "x"),
        ("-N", "2", "--replicas=3", "--", "x"),
        ("--gpus", "many", "--", "x"),
    ],
)
def test_flags_that_make_no_sense_are_code_2(words: tuple[str, ...]):
    rest = a_rest()
    assert rest.run("submit", *words).exit_code == 2
    assert not rest.sent("POST", "jobs")


def test_with_several_projects_one_has_to_be_said():
    more = {"results": [{"slug": s, "archived": False} for s in ("a", "b")]}
    done = Rest().on("GET", "projects", more).run("submit", *FLAGS)
    assert done.exit_code == 2 and "a, b" in done.stderr


def test_the_kept_project_needs_no_question():
    rest = a_rest()
    rest.run("submit", *FLAGS, env={"TESSERA_PROJECT": "kept"})
    assert rest.body("POST", "jobs")["project"] == "kept"


def test_a_terminal_is_shown_the_plan_and_asked():
    rest = a_rest()
    done = rest.run("submit", *FLAGS, asks=True, input="n\n")
    assert done.exit_code == 1 and "Nothing was submitted" in done.stderr
    assert [c.url.params.get("dry_run") for c in rest.sent("POST", "jobs")] == ["true"]
    rest.run("submit", "-d", *FLAGS, asks=True, input="y\n")
    assert len(rest.sent("POST", "jobs")) == 3


def test_yes_asks_nothing():
    rest = a_rest()
    rest.run("submit", "-y", *FLAGS, asks=True)
    assert len(rest.sent("POST", "jobs")) == 1


def test_a_dry_run_creates_nothing_and_says_when_it_can_never_run():
    reason = {"code": "impossible", "sentence": "no node has 64 GPUs", "class": "change"}
    rest = a_rest().on("POST", "jobs", POSSIBLE | {"possible": False, "reason": reason})
    done = rest.run("submit", "--dry-run", *FLAGS)
    assert done.exit_code == 1 and "can never run: no node has 64 GPUs" in done.stdout
    assert len(rest.sent("POST", "jobs")) == 1
    over = reason | {"code": "quota_project"}
    rest.on("POST", "jobs", POSSIBLE | {"possible": False, "reason": over})
    assert rest.run("submit", "--dry-run", "-o", "json", *FLAGS).exit_code == 4


def foreseen(**fields) -> dict:
    """As a portal of today answers a dry run."""
    share = {"of": "quota", "user": "", "model": "", "used": 644_000, "would_be": 700_000}
    return (
        POSSIBLE
        | {
            "verdict": "now",
            "placement": [
                {"node": "a1", "gpu": 2, "profile": "1g.18gb", "threads": 0, "carved": True},
                {"node": "a1", "gpu": 3, "profile": "", "threads": 0, "carved": False},
            ],
            "units": 56_000,
            "gpu_hours": "4.0000",
            "estimate": None,
            "no_estimate": None,
            "limits": [share | {"limit": 896_000, "is_over": False, "ends_at": None}],
            "alternatives": [],
        }
        | fields
    )


def test_a_dry_run_says_where_it_would_start_and_what_that_leaves_of_quotas():
    rest = a_rest().on("POST", "jobs", foreseen())
    done = rest.run("submit", "--dry-run", *FLAGS)
    assert done.exit_code == 0
    for words in (
        "starts at once",
        "a1 GPU 2 (1g.18gb, will be carved), a1 GPU 3",
        "1 GPU, at most 4.0000 GPU-hours",
        "project vision: 12.5 of 16 GPUs",
    ):
        assert words in done.stdout
    assert rest.run("submit", "--dry-run", "-o", "name", *FLAGS).stdout == "now\n"
    as_yaml = rest.run("submit", "--dry-run", "-o", "yaml", *FLAGS).stdout
    assert yaml.safe_load(as_yaml) == foreseen()


def test_a_dry_run_tells_apart_what_is_held_and_what_is_kept_for_jobs_ahead():
    share = {"of": "quota", "user": "", "model": "", "used": 0, "would_be": 56_000}
    share |= {"promised": 112_000, "limit": 112_000, "is_over": True, "ends_at": None}
    done = a_rest().on("POST", "jobs", foreseen(limits=[share])).run("submit", "--dry-run", *FLAGS)
    assert "project vision: 1 of 2 GPUs, 2 kept for jobs ahead, OVER" in done.stdout


def test_a_dry_run_of_a_full_cluster_says_until_when_and_what_would_start_now():
    reason = {"code": "resources", "sentence": "no GPU is free", "class": "wait"}
    none = {"code": "nothing", "sentence": "nothing is known yet"}
    budget = {"of": "budget", "user": "olga", "model": "", "used": 0, "ends_at": None}
    over = budget | {"would_be": 56_000 * 3_600 * 3, "limit": 56_000 * 3_600, "is_over": True}
    answer = foreseen(
        verdict="wait",
        placement=[],
        reason=reason,
        no_estimate=none,
        limits=[over],
        alternatives=[{"kind": "limit", "sentence": "a limit of 1h", "changes": {}}],
    )
    done = a_rest().on("POST", "jobs", answer).run("submit", "--dry-run", *FLAGS)
    assert done.exit_code == 0
    assert "waits: no GPU is free; nothing is known yet" in done.stdout
    assert "olga in vision: at most 3 of 1 GPU-hours, OVER" in done.stdout
    assert "a limit of 1h" in done.stdout


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (an_end("succeeded", 0, 0), 0),
        (an_end("failed", 0, 3, first=3), 3),
        (an_end("failed", 143, 137, first=137), 137),
        (an_end("failed", 256 + 7, first=256 + 7), 7),
        (an_end("failed"), 1),
        (an_end("cancelled", 143), 1),
        (an_end("timed_out", 143), 6),
    ],
)
def test_wait_ends_with_the_jobs_own_code(end: dict, code: int):
    rest = a_rest().on("GET", "jobs/J-12", a_row(), a_row(status="running"), a_row(**end))
    done = rest.run("submit", "--wait", *FLAGS)
    assert (done.exit_code, done.stdout) == (code, "J-12\n")
    assert "J-12 running" in done.stderr and end["status"] in done.stderr


def test_waiting_has_an_end():
    done = a_rest().run("submit", "--wait", "--timeout", "60", *FLAGS)
    assert done.exit_code == 6 and "tessera why J-12" in done.stderr


def test_ctrl_c_detaches_and_says_how_to_come_back():
    def cut(request):
        raise KeyboardInterrupt

    done = a_rest().on("GET", "jobs/J-12", cut).run("submit", "--wait", *FLAGS)
    assert done.exit_code == 130 and "tessera logs -f J-12" in done.stderr


def test_off_a_terminal_the_same_news_is_told_once():
    rest = a_rest().on(
        "GET", "jobs/J-12", *[a_row()] * 9, a_row(position=2), a_row(**an_end("succeeded", 0))
    )
    done = rest.run("submit", "-W", *FLAGS)
    assert done.stderr.count("position 3") == 1 and done.stderr.count("position 2") == 1


def test_a_portal_that_holds_the_answer_is_told_what_was_seen():
    rest = a_rest().on("POST", "jobs", a_row(last_event=41))
    rest.on("GET", "jobs/J-12", a_row(last_event=42, **an_end("succeeded", 0)))
    rest.run("submit", "-W", *FLAGS)
    params = rest.sent("GET", "jobs/J-12")[0].url.params
    assert (params["wait"], params["since"]) == ("5", "41")


def test_a_refusal_says_code_sentence_fields_and_what_to_try():
    errors = [
        {"field": "device.mig", "code": "value", "message": "no such profile"},
        {"field": "name", "code": "value", "message": "write letters"},
    ]
    rest = a_rest().on("POST", "jobs", problem(400, "request_invalid", "wrong", errors=errors))
    done = rest.run("submit", *FLAGS)
    assert (done.exit_code, done.stdout) == (2, "")
    for words in ("request_invalid", "wrong", "device.mig: no such profile", "name: write letters"):
        assert words in done.stderr
    rest.on("POST", "jobs", problem(400, "project_unknown", "Yours: none"))
    assert "Next: tessera whoami" in rest.run("submit", *FLAGS).stderr


def test_a_dry_run_says_what_each_replica_would_start():
    own = [
        {"rank": rank, "node": "", "command": [], "environment": {"RANK": str(rank)}, "files": {}}
        for rank in range(6)
    ]
    launch = {
        "command": ["torchrun", "a b.py"],
        "environment": {"WORLD_SIZE": "6", "NNODES": "6"},
        "files": {"/run/launcher/hosts": "replica-0\n"},
        "replicas": own,
        "omitted_replicas": 10,
    }
    rest = Rest().on("GET", "projects", PROJECTS).on("POST", "jobs", POSSIBLE | {"launch": launch})
    lines = [line.split() for line in rest.run("submit", "--dry-run", *FLAGS).stdout.splitlines()]
    assert ["Starts", "as", "torchrun", "'a", "b.py'"] in lines
    assert ["Environment", "NNODES=6"] in lines and ["WORLD_SIZE=6"] in lines
    assert ["Files", "/run/launcher/hosts"] in lines
    assert ["Replica", "3", "RANK=3"] in lines
    assert ["and", "12", "more", "replicas"] in lines
