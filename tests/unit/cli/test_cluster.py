"""What is free, from nodes and GPUs; and what admins do."""

from __future__ import annotations

import json

import httpx
import pytest

from portal.cli.availability import device_offers, gpu_maps, node_rows
from portal.cli.commands.admin import parse_gpu_units
from portal.cli.exit_codes import CommandFailed
from tests.unit.cli.fake_rest import Rest, a_row, problem


def a_node(name: str = "n1", **fields) -> dict:
    row = {
        "name": name,
        "status": "online",
        "schedulable": True,
        "cordon_reason": "",
        "gpu_count": 1,
        "cpu_milli": 64_000,
        "memory_mib": 512 << 10,
    }
    return row | fields


def a_gpu(*slices: dict, node: str = "n1", **fields) -> dict:
    row = {
        "node": node,
        "index": 0,
        "board": "H200-141GB",
        "memory_mib": 141 << 10,
        "health": "ok",
        "busy": "",
        "slices": list(slices),
    }
    return row | fields


def a_slice(profile: str = "1g.18gb", *, held: bool = False, start: int = 0, **fields) -> dict:
    row = {
        "kind": "mig",
        "profile": profile,
        "start": start,
        "size": 1,
        "memory_mib": 18 << 10,
        "threads": 0,
        "status": "ready",
        "busy": "",
        "held": held,
        "holder": None,
    }
    return row | fields


WHOLE_HELD = a_slice("", held=True, kind="gpu", memory_mib=141 << 10)


def a_count(kind: str = "gpu", profile: str = "", **fields) -> dict:
    counts = {"ready": 0, "carvable": 0, "recarvable": 0, "available": 0, "total": 1}
    memory = 141 << 10 if kind == "gpu" else 18 << 10
    return {"kind": kind, "profile": profile, "memory_mib": memory} | counts | fields


DEVICES = [a_count(recarvable=1, available=1), a_count("mig", "1g.18gb", ready=1, available=7)]
COUNTS = {
    "gpus": 1,
    "in_service": 1,
    "out_of_service": 0,
    "on_unavailable_nodes": 0,
    "free_gpus": 1,
    "idle_slices": 1,
}


def an_availability(**counts) -> dict:
    """One GPU with an idle slice, as REST counts it."""
    board = {"board": "H200-141GB", "model": "H200", "devices": DEVICES}
    node = {"board": "H200-141GB", "node": "n1", "devices": DEVICES}
    cluster = COUNTS | counts
    return {"cluster": cluster, "boards": [cluster | board], "nodes": [cluster | node]}


def test_a_node_has_the_counts_of_rest():
    (row,) = node_rows([a_node()], [a_gpu(a_slice())], an_availability(out_of_service=2))
    assert (row["free_gpus"], row["free_slices"], row["faulted_gpus"]) == (1, {"1g.18gb": 1}, 2)
    (row,) = node_rows([a_node("n2")], [], an_availability())
    assert (row["free_gpus"], row["free_slices"]) == (0, {})


def test_offers_are_by_size_and_only_of_the_memory_asked_for():
    rows = device_offers(an_availability())
    assert [(r["kind"], r["free"], r["all"]) for r in rows] == [("mig", 7, 1), ("gpu", 1, 1)]
    assert [(r["ready"], r["recarvable"], r["nodes"]) for r in rows] == [
        (1, 0, ["n1"]),
        (0, 1, ["n1"]),
    ]
    assert [r["kind"] for r in device_offers(an_availability(), 20 << 10)] == ["gpu"]


def test_the_picture_has_every_slice_where_it_is():
    carved = a_gpu(a_slice(held=True), a_slice(start=3, size=2))
    shares = a_gpu(a_slice("", kind="mps", threads=25, held=True))
    drawn = gpu_maps([a_gpu(), a_gpu(WHOLE_HELD), carved, shares, a_gpu(health="faulted")])
    assert drawn == "[........] [########] [#..--...] [mps 25%] [xxxxxxxx]"


def a_cluster() -> Rest:
    rest = Rest().on("GET", "nodes", {"results": [a_node()]})
    rest.on("GET", "availability", an_availability())
    return rest.on("GET", "gpus", {"results": [a_gpu(a_slice())]})


def test_info_and_offers_are_printed():
    rest = a_cluster()
    assert "1 x 1g.18gb" in rest.run("info").stdout
    assert "[-.......]" in rest.run("info", "-o", "wide").stdout
    assert rest.run("info", "-o", "name").stdout == "n1\n"
    done = rest.run("offers", "--mem", "18GB")
    assert "1g.18gb" in done.stdout and "carved" in done.stderr
    assert json.loads(rest.run("offers", "--mem", "100GB", "-o", "json").stdout)[0]["kind"] == "gpu"
    assert rest.run("offers", "--mem", "much").exit_code == 2


def test_top_off_a_terminal_is_printed_once():
    rest = a_cluster().on("GET", "jobs", {"results": [a_row(), a_row("J-11", status="running")]})
    out = rest.run("top").stdout
    assert "1 of 1 GPUs free · 1 running · 1 waiting" in out
    assert out.index("J-11") < out.index("J-12")
    assert json.loads(rest.run("top", "-o", "json").stdout)["waiting"] == 1


def test_top_says_what_is_out():
    rest = Rest().on("GET", "jobs", {"results": []})
    out = an_availability(in_service=5, out_of_service=2, on_unavailable_nodes=3)
    rest.on("GET", "availability", out)
    assert "1 of 5 GPUs free · 0 running · 0 waiting · 2 out of service · 3 on nodes" in (
        rest.run("top").stdout.replace("\n", " ")
    )


def test_drain_cordons_and_waits_until_nothing_is_held():
    holder = {"job": "J-7"}
    held = {"results": [a_slice(held=True, holder=holder, node="n1"), a_slice(node="n1")]}
    rest = Rest().on("POST", "nodes/n1/cordon", a_node(schedulable=False))
    rest.on("GET", "slices", held, held, {"results": [a_slice(node="n1")]})
    done = rest.run("admin", "node", "drain", "n1", "-m", "new driver", "--wait")
    assert rest.body("POST", "nodes/n1/cordon") == {"reason": "new driver"}
    assert (done.exit_code, done.stdout) == (0, "n1\n")
    assert "J-7" in done.stderr and "is empty" in done.stderr
    rest.on("GET", "slices", held)
    words = ("admin", "node", "drain", "n1", "-m", "x", "--wait", "--timeout", "9")
    assert rest.run(*words).exit_code == 6


def test_held_work_is_listed_first_and_ended_only_as_listed():
    held = {"job": "5-uid", "label": "", "attempt": 1, "rank": 0, "state": "running"}
    rows = [held | {"replica": "r1"}, held | {"replica": "r2", "label": "J-7"}]
    node = a_node(holding_since="2026-01-01T00:00:00Z", held_replicas=rows)
    rest = Rest().on("GET", "nodes/n1", node).on("POST", "nodes/n1/allow-mass-removal", node)
    listed = rest.run("admin", "node", "held", "n1")
    assert listed.exit_code == 0 and "J-7" in listed.stdout and "5-uid" in listed.stdout
    assert rest.run("admin", "node", "held", "n1", "--end", input="n\n").exit_code != 0
    assert not [call for call in rest.calls if call.method == "POST"]
    assert rest.run("admin", "node", "held", "n1", "--end", "--yes").exit_code == 0
    assert rest.body("POST", "nodes/n1/allow-mass-removal") == {"replicas": ["r1", "r2"]}


def test_a_node_without_held_work_says_so_plainly():
    node = a_node(holding_since=None, held_replicas=[])
    listed = Rest().on("GET", "nodes/n1", node).run("admin", "node", "held", "n1")
    assert listed.stderr == "The node runs nothing that the portal does not know.\n"


def a_quota(limit: int = 8, version: int = 3) -> dict:
    return {
        "project": "vision",
        "user": None,
        "model": "",
        "limit_units": limit * 56_000,
        "used_units": 56_000,
        "borrow_units": 0,
        "lend_units": 0,
        "version": version,
    }


def test_a_quota_is_set_from_the_version_that_was_read():
    rest = Rest().on("GET", "quotas/vision", a_quota()).on("PUT", "quotas/vision", a_quota(2, 4))
    done = rest.run("admin", "quota", "set", "vision", "--gpus", "2")
    assert "8 -> 2 GPUs" in done.stderr
    assert rest.body("PUT", "quotas/vision") == {"limit_units": 112_000, "model": ""}
    assert rest.sent("PUT", "quotas/vision")[0].headers["If-Match"] == '"3"'


def test_a_new_quota_overwrites_none():
    rest = Rest().on("PUT", "quotas/vision", a_quota(2, 1))
    assert rest.run("admin", "quota", "set", "vision", "--gpus", "2").exit_code == 0
    assert rest.sent("PUT", "quotas/vision")[0].headers["If-None-Match"] == "*"


def test_a_stale_change_shows_both_versions():
    rest = Rest().on("GET", "quotas/vision", a_quota(8, 3), a_quota(5, 4))
    rest.on("PUT", "quotas/vision", problem(412, "version_stale", "It was changed"))
    done = rest.run("admin", "quota", "set", "vision", "--gpus", "2")
    assert done.exit_code == 5 and "now 5 GPUs (version 4), you asked for 2" in done.stderr


@pytest.mark.parametrize(("text", "amount"), [("2", 112_000), ("2.5", 140_000), ("0", 0)])
def test_gpus_are_whole_units(text: str, amount: int):
    assert parse_gpu_units(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "x", "0.00001", "NaN", "Infinity"])
def test_other_amounts_are_refused(text: str):
    with pytest.raises(CommandFailed):
        parse_gpu_units(text)


def test_approving_several_and_refusing_with_a_reason():
    rest = Rest()
    for job in ("J-1", "J-2"):
        rest.on("POST", f"jobs/{job}/approve", a_row(job))
    rest.on("POST", "jobs/J-3/refuse", a_row("J-3", status="cancelled"))
    assert rest.run("admin", "approve", "J-1", "J-2").stdout == "J-1\nJ-2\n"
    assert rest.run("admin", "refuse", "J-3").exit_code == 2
    assert rest.run("admin", "refuse", "J-3", "--because", "not now").exit_code == 0
    assert rest.body("POST", "jobs/J-3/refuse") == {"because": "not now"}


def test_an_array_is_approved_and_refused_as_a_whole():
    waiting, cancelled = {"waiting": 4, "failed": 0}, {"waiting": 0, "cancelled": 4}
    rest = Rest().on("POST", "arrays/A-5/approve", {"id": "A-5", "members": waiting})
    rest.on("POST", "arrays/A-5/refuse", {"id": "A-5", "members": cancelled})
    approved = rest.run("admin", "approve", "A-5")
    assert (approved.stdout, approved.stderr) == ("A-5\n", "A-5 4 waiting\n")
    assert rest.run("admin", "refuse", "A-5", "-m", "too many").stderr == "A-5 4 cancelled\n"
    assert rest.body("POST", "arrays/A-5/refuse") == {"because": "too many"}


def test_a_stop_of_the_portal_is_code_1():
    rest = Rest().on("GET", "nodes", httpx.ConnectError("refused"))
    done = rest.run("info")
    assert done.exit_code == 1 and "unreachable" in done.stderr
