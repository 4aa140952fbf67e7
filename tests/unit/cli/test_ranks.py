"""A gang on the command line: its ranks beside each other, and their logs as one."""

from __future__ import annotations

import json

from tests.unit.cli.fake_rest import Rest, a_row, an_end

LAG = "GPU 3 of rank 1 was 12 % active over the last 5 min, the median of its gang 96 %"


def a_rank(number: int, **fields) -> dict:
    row = {"rank": number, "node": f"n{number}", "status": "running", "exit_code": None}
    row |= {"failed_first": False, "active_percent": 96, "last_step": 400, "lags": []}
    return row | {"log_bytes": 10} | fields


def a_page(*lines: tuple[int, str], after: str, more: bool = False, omitted: int = 0) -> dict:
    rows = [
        {"rank": rank, "line": 1, "at": None, "text": text, "cut_bytes": 0, "is_complete": True}
        for rank, text in lines
    ]
    page = {"results": rows, "attempt": 1, "next_after": after, "has_more": more}
    return page | {"omitted_ranks": omitted}


def attempts(*numbers: int) -> list[dict]:
    return [{"number": n, "outcome": "", "replicas": []} for n in numbers]


def test_ranks_are_a_table_and_each_straggler_has_its_sentence():
    slow = a_rank(1, active_percent=12, lags=[LAG])
    broken = a_rank(2, status="exited", exit_code=1, failed_first=True, active_percent=None)
    page = {"results": [broken, a_rank(0), slow], "attempt": 1, "metric": "loss"}
    rest = Rest().on("GET", "jobs/J-1/ranks", page)
    done = rest.run("ranks", "J-1")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["2", "n2", "exited", "1", "-", "400", "failed", "first"]
    assert lines[3] == ["1", "n1", "running", "-", "12", "%", "400", "straggler"]
    assert f"Straggler: {LAG}" in done.stderr
    assert json.loads(rest.run("ranks", "J-1", "-o", "json").stdout) == page


def test_a_job_without_ranks_says_where_to_look():
    rest = Rest().on("GET", "jobs/J-1/ranks", {"results": [], "attempt": None, "metric": ""})
    done = rest.run("ranks", "J-1")
    assert done.exit_code == 0 and "tessera why J-1" in done.stdout + done.stderr


def test_all_ranks_are_one_log_over_all_pages():
    rest = Rest().on("GET", "jobs/J-1", a_row("J-1", replicas=2, attempts=attempts(1)))
    first = a_page((0, "a"), (1, "b"), after="a1.0-2.1-2", more=True)
    rest.on("GET", "jobs/J-1/logs/merged", first, a_page((0, "c"), after="a1.0-4.1-2"))
    done = rest.run("logs", "J-1", "--all-ranks")
    assert done.stdout == "[0] a\n[1] b\n[0] c\n"
    calls = rest.sent("GET", "jobs/J-1/logs/merged")
    assert [call.url.params.get("after") for call in calls] == [None, "a1.0-2.1-2"]
    assert "tail" not in calls[0].url.params


def test_the_last_lines_of_all_ranks_and_what_is_left_out():
    rest = Rest().on("GET", "jobs/J-1", a_row("J-1", replicas=70, attempts=attempts(1)))
    rest.on("GET", "jobs/J-1/logs/merged", a_page((3, "\x1b[31mx"), after="a1.3-2", omitted=6))
    done = rest.run("logs", "J-1", "--all-ranks", "-n", "5")
    assert done.stdout == "[3] x\n"
    assert "Without 6 of the replicas" in done.stderr
    assert rest.calls[-1].url.params["tail"] == "5"
    assert "\x1b" in rest.run("logs", "J-1", "--all-ranks", "--raw").stdout


def test_following_all_ranks_goes_on_with_a_new_attempt_and_ends_with_the_job():
    first = a_row("J-1", status="running", attempts=attempts(1))
    second = a_row("J-1", status="running", attempts=attempts(1, 2))
    over = a_row("J-1", attempts=attempts(1, 2), **an_end("failed", 3, first=3))
    rest = Rest().on("GET", "jobs/J-1", first, first, second, over)
    pages = [
        a_page((0, "one"), after="a1.0-4"),
        a_page(after="a1.0-4"),
        a_page((1, "two"), after="a1.0-4.1-4"),
        a_page((0, "three"), after="a2.0-6"),
    ]
    rest.on("GET", "jobs/J-1/logs/merged", *pages)
    done = rest.run("logs", "-f", "J-1", "--all-ranks")
    assert done.stdout == "[0] one\n[1] two\n[0] three\n" and done.exit_code == 0
    assert "Attempt 2" in done.stderr and "code 3" in done.stderr
    last = rest.sent("GET", "jobs/J-1/logs/merged")[-1].url.params
    assert (last["attempt"], "after" in last) == ("2", False)


def test_all_ranks_and_some_of_them_is_refused():
    done = Rest().run("logs", "J-1", "--all-ranks", "-r", "1")
    assert done.exit_code == 2 and "leave out --rank" in done.stderr
