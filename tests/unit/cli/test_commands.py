"""Commands about jobs over a REST in memory: what is sent, what is printed where, and with which
code."""

from __future__ import annotations

import json

import yaml

from tests.unit.cli.fake_rest import NOW, Rest, a_row, an_end

ROWS = {"results": [a_row(), a_row("J-11", status="running")], "next": None}


def test_a_list_in_every_form():
    rest = Rest().on("GET", "jobs", ROWS)
    assert json.loads(rest.run("ps", "-o", "json").stdout) == ROWS["results"]
    assert yaml.safe_load(rest.run("ps", "-o", "yaml").stdout) == ROWS["results"]
    assert rest.run("ps", "-o", "name").stdout == "J-12\nJ-11\n"
    lines = rest.run("ps").stdout.splitlines()
    assert lines[0].split()[:3] == ["ID", "NAME", "OWNER"] and len(lines) == 3
    assert "GPU-HOURS" in rest.run("ps", "-o", "wide").stdout
    assert rest.run("ps", "-o", "xml").exit_code == 2


def test_the_list_is_of_ones_own_that_are_not_over():
    rest = Rest().on("GET", "jobs", ROWS)
    rest.run("ps")
    rest.run("ps", "-a", "-A")
    mine, every = (call.url.params for call in rest.calls)
    assert mine["mine"] == "true" and "queued" in mine.get_list("status")
    assert "failed" not in mine.get_list("status")
    assert "mine" not in every and not every.get_list("status")


def test_off_a_terminal_no_row_is_cut_and_nothing_is_coloured(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    done = Rest().on("GET", "jobs", {"results": [a_row(name="x" * 63)]}).run("ps", "-o", "wide")
    assert "x" * 63 in done.stdout and "\x1b" not in done.stdout


def test_nothing_that_others_wrote_reaches_the_terminal_as_a_command():
    evil = a_row(
        name="a\x1b]0;evil\x07b",
        owner="[bold]x[/bold]",
        reason={"code": "held", "class": "ask", "sentence": "\x1b[2Jlook \u202e", "unblocks": ""},
    )
    rest = Rest().on("GET", "jobs", {"results": [evil]}).on("GET", "jobs/J-12", evil)
    for words in (("ps",), ("why", "J-12"), ("show", "J-12")):
        out = rest.run(*words).stdout
        assert "\x1b" not in out and "\u202e" not in out and "ab" in out
    assert "[bold]x[/bold]" in rest.run("ps").stdout


def test_an_empty_list_tells_where_the_others_are():
    done = Rest().on("GET", "jobs", {"results": []}).run("ps")
    assert (done.exit_code, done.stdout) == (0, "") and "tessera ps -a" in done.stderr


WHY = {
    "code": "resources",
    "class": "wait",
    "sentence": "all GPUs are held",
    "evidence": {},
    "unblocks": "J-3 ends",
    "alternatives": [
        {"kind": "profile", "sentence": "take 1g.18gb", "changes": {"device": {"mig": "1g.18gb"}}}
    ],
}


def test_why_tells_the_reason_and_its_alternatives():
    estimate = {"expected": NOW.isoformat(), "pessimistic": NOW.isoformat(), "basis": "time limits"}
    rest = Rest().on("GET", "jobs/J-12", a_row(reason=WHY, estimate=estimate))
    out = rest.run("why", "J-12").stdout
    for told in ("all GPUs are held", "J-3 ends", "1. take 1g.18gb", "starts about", "time limits"):
        assert told in out
    assert json.loads(rest.run("why", "J-12", "-o", "json").stdout)["reason"] == WHY
    assert rest.run("why", "J-12", "-o", "name").stdout == "resources\n"


def test_why_says_until_when_and_who_ends_it():
    bound = {"at": NOW.isoformat(), "is_certain": True, "since": None, "jobs": ["J-3"]}
    bound["sentence"] = "It waits until J-3 (fill) ends: 2026-11-22 10:00 UTC at the latest"
    rest = Rest().on("GET", "jobs/J-12", a_row(reason=WHY, bound=bound))
    out = " ".join(rest.run("why", "J-12").stdout.split())
    assert "It waits until J-3 (fill) ends: 2026-11-22" in out and "at the latest" in out
    assert json.loads(rest.run("why", "J-12", "-o", "json").stdout)["bound"] == bound


def test_a_start_of_which_only_the_bound_is_told_is_no_guess():
    estimate = {"expected": None, "optimistic": None, "pessimistic": NOW.isoformat()}
    estimate |= {"basis": "", "bound_held_in_10": 9}
    rest = Rest().on("GET", "jobs/J-12", a_row(reason=WHY, estimate=estimate))
    out = rest.run("why", "J-12").stdout
    assert "in 9 of 10 cases" in out and "about" not in out


def test_ask_sends_the_note_and_says_where_the_answer_appears():
    rest = Rest().on("POST", "jobs/J-12/limit-request", {"id": 1, "job": "J-12"})
    done = rest.run("ask", "J-12", "--note", "deadline on Friday")
    assert rest.body("POST", "jobs/J-12/limit-request") == {"note": "deadline on Friday"}
    assert "tessera events J-12" in done.stderr


def test_an_alternative_is_taken_by_its_number():
    rest = Rest().on("GET", "jobs/J-12", a_row(reason=WHY))
    rest.on("POST", "jobs/J-12/replace", a_row("J-13"))
    assert rest.run("replace", "J-12", "1").stdout == "J-13\n"
    assert rest.body("POST", "jobs/J-12/replace") == {"changes": {"device": {"mig": "1g.18gb"}}}
    assert rest.run("replace", "J-12", "2").exit_code == 2
    assert len(rest.sent("POST", "jobs/J-12/replace")) == 1
    rest.on("GET", "jobs/J-12", a_row())
    none = rest.run("replace", "J-12", "1")
    assert none.exit_code == 5 and "no alternatives at the moment" in none.stderr


def test_an_unknown_job_is_code_3_and_says_what_to_try():
    done = Rest().run("show", "J-99")
    assert done.exit_code == 3 and "Next: tessera ps -a" in done.stderr


def test_cancelling_several_goes_on_after_one_that_fails():
    rest = Rest().on("GET", "jobs/J-1", a_row("J-1")).on("GET", "jobs/J-3", a_row("J-3"))
    rest.on("POST", "jobs/J-1/cancel", a_row("J-1", status="cancelled"))
    rest.on("POST", "jobs/J-3/cancel", a_row("J-3", status="stopping"))
    done = rest.run("cancel", "J-1", "J-2", "J-3")
    assert done.exit_code == 3
    assert "J-1 cancelled" in done.stderr and "J-3 stopping" in done.stderr


def test_cancelling_what_is_over_is_no_failure():
    over = a_row(**an_end("succeeded", 0))
    rest = Rest().on("GET", "jobs/J-12", over).on("POST", "jobs/J-12/cancel", over)
    done = rest.run("cancel", "J-12")
    assert done.exit_code == 0 and "had already ended (succeeded)" in done.stderr


def test_extend_and_retry_send_what_rest_reads():
    longer = a_row(status="running", deadline_at="2026-05-04T14:00:00Z")
    rest = Rest().on("POST", "jobs/J-12/extend", longer)
    rest.on("POST", "jobs/J-12/retry", a_row("J-13"))
    assert "2h left" in rest.run("extend", "J-12", "1h").stderr
    assert rest.body("POST", "jobs/J-12/extend") == {"by": "1h"}
    assert rest.run("retry", "J-12").stdout == "J-13\n"
    assert rest.sent("POST", "jobs/J-12/retry")[0].headers["Idempotency-Key"]


def test_a_portal_without_an_address_is_not_taken_for_an_unknown_job():
    rest = Rest().on("GET", "jobs/J-12", a_row())
    done = rest.run("extend", "J-12", "1h")
    assert done.exit_code == 1 and "not_offered" in done.stderr
    assert Rest().run("extend", "J-12", "1h").exit_code == 3


def test_usage_says_when_the_portal_has_none():
    done = Rest().run("usage")
    assert done.exit_code == 1 and "not_offered" in done.stderr and "quota" in done.stderr


def test_an_array_is_one_row_and_is_cancelled_and_retried_as_one():
    members = {"running": 37, "waiting": 60, "succeeded": 0, "failed": 3, "cancelled": 0}
    row = a_row("J-20", array={"id": "A-5", "index": 0, "members": members})
    rest = Rest().on("GET", "jobs", {"results": [row], "next": None})
    assert "37 running, 60 waiting, 3 failed" in rest.run("ps").stdout
    assert rest.run("ps", "-o", "name").stdout == "A-5\n"
    rest.on("POST", "arrays/A-5/cancel", {"id": "A-5"})
    assert "A-5: all members cancelled" in rest.run("cancel", "A-5").stderr
    rest.on("POST", "arrays/A-5/retry", {"id": "A-5", "members": members})
    assert "60 members wait" in rest.run("retry", "A-5").stderr
