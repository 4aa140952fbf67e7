"""Warm slices through the whole product: the worker has them carved by a real agent with the
simulated driver before anybody asks, and the next job starts on one of them."""

import pytest

from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

SLEEP = ["python3", "-c", "import time; time.sleep(600)"]
SMALL = {"device": {"mig": "2g.35gb"}}


@pytest.fixture
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("s"), nodes=("node-a",), gpus=1) as running:
        yield running


def idle(stack: Stack) -> set[str]:
    """Slices that are ready and held by nobody."""
    rows = stack.call("GET", "/slices")["results"]
    return {row["id"] for row in rows if row["status"] == "ready" and not row["held"]}


@pytest.mark.slow
def test_what_was_asked_for_lately_is_ready_before_it_is_asked_for_again(stack):
    first = stack.submit(SLEEP, **SMALL)
    stack.until_status(first, "running")
    assert idle(stack) == set(), "not unless the policy says so"
    stack.manage_program("tests.services.set_policy", "warm=true")
    until(lambda: idle(stack), what="a slice that nobody asked for")
    second = stack.submit(SLEEP, **SMALL)
    submitted = stack.until_status(second, "running")["submitted_at"]
    rows = stack.call("GET", "/slices")["results"]
    assert {row["profile"] for row in rows} == {"2g.35gb"}
    (held,) = [row for row in rows if row["holder"] and row["holder"]["job"] == second]
    assert held["ready_at"] < submitted
