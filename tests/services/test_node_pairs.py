"""The network of two simulated nodes, measured by real processes: by the check of a gang before it
starts, and by a job of an admin. A ring of sockets stands in for nccl-tests there."""

import json

import pytest

from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]
IMAGE = "tessera-example:latest"


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    stores = {
        "database_url": postgres_server.create_database(migrated=True),
        "redis_url": redis_server.url(),
    }
    env = {"TESSERA_NCCL_TESTS_IMAGE": IMAGE}
    with Stack(var=tmp_path / "var", extra_env=env, **stores) as running:
        told = json.loads(running.manage_program("tests.services.make_admin"))
        running.seeded |= told
        yield running


def test_a_gang_is_checked_first_and_a_slow_pair_is_found_from_one_call(stack):
    job = stack.submit(
        ["python3", "-c", "print('the job itself')"],
        device={"gpus": 2},
        replicas=2,
        topology="any",
        preflight="all-reduce",
    )
    seen = stack.until_status(job, "succeeded", "failed")
    log = stack.call("GET", f"/jobs/{job}/logs", params={"rank": 0, "attempt": 1})
    assert seen["status"] == "succeeded", log
    shown = stack.call("GET", f"/jobs/{job}")
    assert [attempt["is_preflight"] for attempt in shown["attempts"]] == [True, False]
    assert "not NCCL" in log and "Out of bounds values : 0 OK" in log
    (row,) = stack.call("GET", "/pair-measurements")["results"]
    assert (row["measured_by"], row["job"], row["verdict"]) == ("preflight", job, "unjudged")
    assert row["busbw_mb_per_second"] > 0 and row["wrong_values"] == 0

    body = {"nodes": ["node-b", "node-a"], "project": "vision", "expected_mb_per_second": 9_000_000}
    asked = stack.call("POST", "/pair-measurements", json=body)
    assert (asked["first"], asked["second"], asked["verdict"]) == ("node-a", "node-b", "open")

    def measured():
        newest, _ = stack.call("GET", "/pair-measurements")["results"]
        return newest if newest["verdict"] != "open" else None

    row = until(measured, what="the result", every=1)
    log = stack.call("GET", f"/jobs/{asked['job']}/logs", params={"rank": 0})
    assert (row["verdict"], row["measured_by"], row["is_current"]) == ("slow", "admin", True), log
