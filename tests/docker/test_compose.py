"""The production path: docker-compose.yml as it is shipped, from nothing to a job, and each of its
services killed while the job runs. Prints what it took as JSON."""

import contextlib
import json
import os
import signal

import pytest

from agents.contract.version import VERSION
from tests.docker.compose_stack import (
    SCALED,
    SECONDS,
    SERVICES,
    ComposeStack,
    seconds_of,
)
from tests.docker.own_engine import own_engine
from tests.environment import debian
from tests.services.stack import until

# Images are built and imported, and half a dozen services start several times.
pytestmark = [pytest.mark.docker, pytest.mark.compose, pytest.mark.slow, pytest.mark.timeout(3000)]
MIB = 1 << 20
COUNT = """
import itertools, signal, time
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
for number in itertools.count():
    if ended:
        break
    print(number, flush=True)
    time.sleep(0.05)
print("saved", flush=True)
"""


@pytest.fixture(scope="module")
def figures(request):
    found = {}
    yield found
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(json.dumps({"compose": found}))


@pytest.fixture(scope="module")
def stack(figures):
    if reason := debian.why_not("compose"):
        pytest.skip(reason)
    with own_engine() as engine, contextlib.ExitStack() as ending:
        stack = ComposeStack(engine)
        ending.callback(stack.close)
        figures["build_s"] = seconds_of(stack.build)
        figures["up_s"] = seconds_of(stack.up)
        figures["healthy_s"] = seconds_of(stack.until_healthy)
        figures["enrol_s"] = seconds_of(stack.enrol)
        yield stack


def test_the_image_is_small_versioned_and_runs_as_nobody(stack, figures):
    image = stack.client.images.get(f"tessera-portal:{VERSION}")
    base = stack.client.images.get("python:3.11-slim")
    figures["image_mib_beyond_base"] = (image.attrs["Size"] - base.attrs["Size"]) // MIB
    assert figures["image_mib_beyond_base"] <= 600
    assert image.labels["org.opencontainers.image.version"] == VERSION
    for service in ("entry", "web", "agent-web", "worker", "beat"):
        (container,) = stack.containers(service)
        host = container.attrs["HostConfig"]
        assert (host["ReadonlyRootfs"], host["CapDrop"]) == (True, ["ALL"]), service
        assert container.exec_run(["id", "-u"]).output.strip() != b"0", service


def test_a_mig_job_runs_and_its_log_arrives(stack, figures):
    job = stack.submit("python3", "-c", "print('here')")
    figures["first_job_s"] = seconds_of(lambda: stack.until_status(job, "succeeded"))
    until(lambda: stack.job_log(job) == "here\n", what="its log")


def test_each_service_is_killed_while_a_job_runs(stack, figures):
    stack.up(**SCALED)
    figures["scaled_s"] = seconds_of(lambda: stack.until_healthy(**SCALED))
    job = stack.submit("python3", "-c", COUNT)
    stack.until_status(job, "running")
    container = stack.job_container(job)
    figures["running_after_kill_s"] = {}
    for service in (*SERVICES, "agent"):
        stack.kill(service)
        figures["running_after_kill_s"][service] = seconds_of(
            lambda: stack.until_status(stack.submit("true"), "running", "succeeded")
        )
        assert stack.job_container(job) == container, service
        stack.until_healthy(**SCALED)
    assert stack.call("GET", f"/jobs/{job}")["status"] == "running"
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled")

    def lines():
        return stack.job_log(job).split("\n")[:-1]

    until(lambda: lines()[-1:] == ["saved"], seconds=SECONDS, what="the last word of the job")
    *numbers, _ = lines()
    assert numbers == list(map(str, range(len(numbers))))
    figures["log_lines"] = len(numbers)


def test_health_checks_tell_who_hangs_and_who_lacks_the_database(stack):
    frozen = [stack.pid(service) for service in ("worker", "beat")]
    (database,) = stack.containers("db")
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    database.stop()
    try:
        # What was found of the database a moment ago is told for a second.
        until(
            lambda: stack.http.get("/readyz").status_code == 503,
            seconds=SECONDS,
            what="the web process to say that it is not ready",
        )
        for path in ("/sign-in/", "/api/v1/jobs", "/readyz"):
            answer = stack.http.get(path, headers={"Authorization": f"Bearer {stack.token}"})
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True), path
        assert stack.http.get("/livez").text == "ok\n"
        for service in ("web", "agent-web", "entry"):
            until(
                lambda s=service: set(stack.health(s)) == {"unhealthy"},
                seconds=SECONDS,
                what=f"{service} to be unhealthy",
            )
        for service in ("worker", "beat"):
            until(
                lambda s=service: stack.health(s)[0] == "unhealthy",
                seconds=SECONDS,
                what=f"the frozen {service} to be unhealthy",
            )
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        database.start()
    stack.until_healthy(**SCALED)
