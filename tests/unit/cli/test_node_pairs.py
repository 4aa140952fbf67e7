"""`tessera admin node measure`, `pairs` and `clear-pair`."""

from tests.unit.cli.fake_rest import Rest

ROW = {
    "id": 1,
    "first": "a",
    "second": "b",
    "job": "J-12",
    "verdict": "slow",
    "is_current": True,
    "busbw_mb_per_second": 12_300,
    "expected_mb_per_second": 50_000,
    "problem": "",
}


def test_measure_names_the_nodes_and_the_project_and_says_where_to_look():
    rest = Rest().on("POST", "pair-measurements", ROW | {"verdict": "open"})
    done = rest.run("admin", "node", "measure", "a", "b", "-p", "infra", "--expected", "48.5")
    assert rest.body("POST", "pair-measurements") == {
        "nodes": ["a", "b"],
        "project": "infra",
        "expected_mb_per_second": 48_500,
    }
    assert "tessera logs -f J-12" in done.stderr


def test_pairs_lists_what_counts_now_and_with_all_also_what_did():
    old = ROW | {"is_current": False, "job": "J-3", "verdict": "ok"}
    opened = ROW | {"is_current": False, "job": "J-13", "verdict": "open"}
    rest = Rest().on("GET", "pair-measurements", {"results": [opened, ROW, old]})
    out = rest.run("admin", "node", "pairs").stdout
    assert "12.3" in out and "50.0" in out and "J-13" in out and "J-3 " not in out
    assert "J-3" in rest.run("admin", "node", "pairs", "--all").stdout
    none = Rest().on("GET", "pair-measurements", {"results": []}).run("admin", "node", "pairs")
    assert "No pair of nodes has been measured" in none.stderr


def test_clear_pair_finds_the_result_that_keeps_gangs_away():
    fine = ROW | {"id": 2, "second": "c", "verdict": "ok"}
    rest = Rest().on("GET", "pair-measurements", {"results": [fine, ROW]})
    rest.on("POST", "pair-measurements/1/clear", ROW | {"is_current": False})
    assert "use this pair again" in rest.run("admin", "node", "clear-pair", "b", "a").stderr
    none = rest.run("admin", "node", "clear-pair", "a", "c")
    assert none.exit_code != 0 and "keeps gangs away" in none.stderr
