"""The metrics of a job: the last values as a table, all points as CSV or JSON."""

from __future__ import annotations

import json

import httpx

from tests.unit.cli.fake_rest import Rest


def a_series(name: str, **fields) -> dict:
    row = {"name": name, "rank": 0, "attempt": 1, "count": 3, "last": 0.25, "last_step": 400}
    return row | {"low": 0.25, "high": 0.9, "points": [[1, 0.9], [400, 0.25]]} | fields


def a_page(*rows: dict, after=None, **skipped: int) -> dict:
    return {"results": list(rows), "next_after": after, "skipped": skipped}


def test_the_last_values_are_a_table_and_skipped_lines_are_named():
    rest = Rest().on("GET", "jobs/J-1/metrics", a_page(a_series("loss"), not_json=2))
    result = rest.run("metrics", "J-1")
    assert result.exit_code == 0
    assert "loss" in result.stdout
    assert "0.25" in result.stdout
    assert "not_json 2" in result.stderr
    assert rest.calls[-1].url.params["points"] == "false"


def test_the_utilisation_of_a_training_is_a_line_beside_the_table():
    found = {
        **{"percent": 41.26, "devices": "8 × H100", "problem": "", "no_expectation": ""},
        "expected": {"percent": 47.31, "division": "TP 2, PP 1, CP 1, DP 4, ZeRO 1"},
    }
    page = a_page(a_series("loss")) | {"model_utilisation": found}
    result = Rest().on("GET", "jobs/J-1/metrics", page).run("metrics", "J-1")
    assert (
        "Model FLOPs utilisation: 41.3 % of the peak of 8 × H100; the advisor expects 47.3 % "
        "(TP 2, PP 1, CP 1, DP 4, ZeRO 1)"
    ) in result.stderr


def test_all_points_come_as_csv_over_all_pages():
    pages = (a_page(a_series("acc"), after=200), a_page(a_series("loss", rank=1)))
    rest = Rest().on("GET", "jobs/J-1/metrics", *pages)
    lines = rest.run("metrics", "J-1", "--csv").stdout.splitlines()
    assert lines == [
        "name,rank,step,value",
        *("acc,0,1,0.9", "acc,0,400,0.25", "loss,1,1,0.9", "loss,1,400,0.25"),
    ]
    assert rest.calls[-1].url.params["after"] == "200"


def test_an_array_has_a_row_for_each_member():
    def a_member(index: int, **metrics) -> dict:
        fields = {"index": index, "job": f"J-{index + 7}", "status": "succeeded"}
        return fields | {"parameters": {"lr": f"1e-{index}"}, "metrics": metrics}

    loss = {"last": 0.25, "low": 0.125, "high": 0.9}
    pages = (
        {"results": [a_member(0, loss=loss)], "next_after": 200},
        {"results": [a_member(1)], "next_after": None},
    )
    rest = Rest().on("GET", "arrays/A-5/metrics", *pages)
    lines = rest.run("metrics", "A-5").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["INDEX", "lr", "JOB", "STATUS", "loss"],
        ["0", "1e-0", "J-7", "succeeded", "0.25"],
        ["1", "1e-1", "J-8", "succeeded", "-"],
    ]
    assert rest.calls[-1].url.params["after"] == "200"
    assert rest.run("metrics", "A-5", "--rank", "1").exit_code == 2
    text = httpx.Response(200, text="index,job\n0,J-7\x1b[31m\n")
    csv = Rest().on("GET", "arrays/A-5/metrics", text).run("metrics", "A-5", "--csv")
    assert csv.stdout.splitlines()[0] == "index,job"
    assert "\x1b" not in csv.stdout


def test_json_has_all_and_an_empty_answer_says_how_to_report():
    rest = Rest().on("GET", "jobs/J-1/metrics", a_page(a_series("loss")))
    found = json.loads(rest.run("metrics", "J-1", "-o", "json").stdout)
    assert found["results"][0]["points"] == [[1, 0.9], [400, 0.25]]
    nothing = Rest().on("GET", "jobs/J-1/metrics", a_page())
    result = nothing.run("metrics", "J-1")
    assert "TESSERA_METRICS_FILE" in result.stdout + result.stderr
