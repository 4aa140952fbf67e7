"""A service of real jobs: started by its first call, stopped without calls, called while its
copies, the worker and the agent are killed, and while its canary is promoted."""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]
CALLS, CALLERS, KILLS = 1_000, 8, 3

# Answers with its process id, in one piece; /health as well.
SERVER = """
import os, socket
listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=64)
body = str(os.getpid()).encode()
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body)
while True:
    caller, _ = listener.accept()
    with caller:
        head = b""
        while b"\\r\\n\\r\\n" not in head:
            part = caller.recv(65536)
            if not part:
                break
            head += part
        else:
            caller.sendall(answer)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory, redis_server) -> Iterator[Stack]:
    var = tmp_path_factory.mktemp("services")
    running = Stack(var=var, redis_url=redis_server.url(10), nodes=("node-a",))
    running.extra_env = {"TESSERA_APPS_DOMAIN": "localhost"}
    with running:
        yield running


@pytest.fixture(scope="module")
def token(stack) -> str:
    admin = json.loads(stack.manage_program("tests.services.make_admin"))["token"]
    body = {"name": "calls", "project": "vision", "days": 1}
    headers = {"Authorization": f"Token {admin}"}
    made = stack.http.post(f"{stack.url}/api/v1/app-tokens", json=body, headers=headers)
    assert made.is_success, made.text
    return str(made.json()["token"])


def create(stack: Stack, name: str, **fields: Any) -> str:
    request = {
        "project": "vision",
        "image": "tessera-example:latest",
        "command": [sys.executable, "-c", SERVER],
        "env": {"VERSION": name},
        "device": {"mig": "1g.18gb"},
        "cpu": "100m",
        "memory": "128MiB",
        "time_limit": "10m",
        "grace_seconds": 1,
    }
    body = {"name": name, "health_path": "/health", "request": request} | fields
    return str(stack.call("POST", "/services", json=body)["id"])


def shown(stack: Stack, service: str) -> dict[str, Any]:
    found: dict[str, Any] = stack.call("GET", f"/services/{service}")
    return found


@contextmanager
def calling(stack: Stack, service: str, token: str) -> Iterator[Callable[[], httpx.Response]]:
    host = shown(stack, service)["host"]
    headers = {"Host": f"{host}:{stack.port}", "Authorization": f"Bearer {token}"}
    options: dict[str, Any] = {"trust_env": False, "timeout": 180, "headers": headers}
    with httpx.Client(base_url=stack.url, **options) as client:
        yield lambda: client.get("/")


def test_a_service_without_calls_has_no_copies_and_the_first_call_starts_one(stack, token):
    service = create(stack, "idle", min_copies=0, max_copies=1, cool_down_seconds=1)
    assert shown(stack, service)["copies"] == 0
    with calling(stack, service, token) as call:
        first = call()
        assert first.status_code == 200, first.text
        (job,) = shown(stack, service)["jobs"]
        stack.until_status(job["job"], "cancelled")
        again = call()
    assert again.status_code == 200, again.text
    assert again.text != first.text, "another copy answers"
    stack.call("DELETE", f"/services/{service}")


def test_no_call_is_lost_while_copies_are_killed(stack, token):
    service = create(stack, "busy", min_copies=3, max_copies=3)

    def ready(least: int) -> bool:
        return int(shown(stack, service)["ready"]) >= least

    until(lambda: ready(3), what="three copies")
    chance = random.Random(19)
    with calling(stack, service, token) as call, ThreadPoolExecutor(CALLERS) as threads:
        answers: list[Future[httpx.Response]] = []
        for part in range(KILLS + 1):
            share = CALLS // (KILLS + 1)
            answers += [threads.submit(call) for _ in range(share)]
            if part < KILLS:
                # In the middle of them; the others answer meanwhile.
                seen = {each.result().text for each in answers[-share : -share // 2]}
                with suppress(ProcessLookupError):
                    os.kill(int(chance.choice(sorted(seen))), signal.SIGKILL)
                for each in answers:
                    each.result()
                until(lambda: ready(2), what="two copies")
    found = [each.result() for each in answers]
    assert len(found) == CALLS
    lost = [each.text for each in found if each.status_code != 200]
    assert lost == []
    assert len({each.text for each in found}) > 1
    states = [job["status"] for job in shown(stack, service)["jobs"]]
    assert states.count("failed") >= KILLS - 1, states
    stack.call("DELETE", f"/services/{service}")


@pytest.mark.parametrize("name", ["worker", "node-a"])
def test_a_worker_or_an_agent_that_is_killed_costs_at_most_the_calls_in_progress(
    stack, token, name
):
    service = create(stack, "killed", min_copies=2, max_copies=2)
    until(lambda: shown(stack, service)["ready"] == 2, what="two copies")
    with calling(stack, service, token) as call, ThreadPoolExecutor(CALLERS) as threads:

        def call_until_taken() -> httpx.Response:
            """Again where it says so: a busy machine is long without the node."""
            return until(lambda: None if (end := call()).status_code == 503 else end, what="it")

        answers = [threads.submit(call_until_taken) for _ in range(200)]
        until(lambda: any(each.done() for each in answers), what="an answer", every=0.01)
        stack.kill(name)
        if name == "worker":
            stack.start_worker()
        else:
            stack.start_agent(name)
        lost = [each.result() for each in answers if each.result().status_code != 200]
        assert len(lost) <= CALLERS, [each.text for each in lost]
        assert call_until_taken().status_code == 200
    stack.call("DELETE", f"/services/{service}")


def test_no_call_is_lost_while_a_canary_is_tried_and_promoted(stack, token):
    service, canary = create(stack, "stable"), create(stack, "next")

    def ready(of: str) -> bool:
        return int(shown(stack, of)["ready"]) >= 1

    def change(**fields: Any) -> None:
        headers = {
            "Authorization": f"Token {stack.seeded['token']}",
            "If-Match": f'"{shown(stack, service)["version"]}"',
        }
        address = f"{stack.url}/api/v1/services/{service}"
        changed = stack.http.patch(address, json=fields, headers=headers)
        assert changed.is_success, changed.text

    until(lambda: ready(service) and ready(canary), what="a copy of each")
    with calling(stack, service, token) as call:
        old = {call().text}
        change(canary=canary, canary_percent=100)
        until(lambda: call().text not in old, what="an answer of the canary")
        new = {call().text for _ in range(10)}
        assert len(new) == 1 and not new & old
        change(canary_percent=50)
        # All of one version is a chance of 1 in 2^39 by then.
        until(lambda: call().text in old, what="an answer of the service")
        both = [call().text for _ in range(40)]
        assert set(both) == old | new
        stack.call("POST", f"/services/{service}/promote")
        statuses = set()

        def is_over() -> bool:
            statuses.add(call().status_code)
            return bool(shown(stack, canary)["ended_at"])

        until(is_over, what="the end of the canary")
        until(lambda: call().text not in old | new, what="an answer of the new copy")
        assert statuses == {200}
    assert shown(stack, service)["generation"] == 2
    stack.call("DELETE", f"/services/{service}")
