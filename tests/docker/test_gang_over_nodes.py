"""A gang over two engines through the whole product: portal, planner and two agents, with the
policies that a node has without a policy file."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.docker.two_engines import NOTHING, EngineMachine, share_image, two_engines
from tests.services.stack import ROOT, Stack, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# The ranks add up their numbers again and again, over one connection that has to last.
ADD_UP = """
import os, socket, time
rank = int(os.environ["RANK"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", place[1])) as server:
        other = server.accept()[0]
else:
    for _ in range(4_000):
        try:
            other = socket.create_connection(place, timeout=60)
            break
        except OSError:
            time.sleep(0.05)
for step in range(150):
    other.sendall(bytes([rank + 1]))
    total = rank + 1 + other.recv(1)[0]
    if step == 10:
        print("adding", flush=True)
    time.sleep(0.2)
print("sum", total, flush=True)
"""


class OverlayStack(Stack):
    """Web and each agent run on one of the machines; the test calls from the first."""

    machines: dict[str, EngineMachine]

    @property
    def url(self) -> str:
        return f"http://{self.machines['web'].address}:{self.port}"

    def call(self, method, path, **options):
        with self.machines["web"].network():
            return super().call(method, path, **options)

    def start_web(self) -> None:
        words = ("--host", self.machines["web"].address, "--port", str(self.port))
        self._start("web", "uvicorn", "portal.asgi:application", *words, "--no-proxy-headers")

        def answers() -> bool:
            with self.machines["web"].network():
                return self._answers("web", self.url)

        until(answers, seconds=120, what="the web process")

    def _start(self, name, *command, env=None) -> None:
        machine = self.machines.get(name)
        if machine is None:
            super()._start(name, *command, env=env)
            return
        own = {"DOCKER_HOST": machine.engine.base_url, "TESSERA_AGENT_ALLOW_PLAIN_HTTP": "1"}
        with (self.var / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*machine.enter, sys.executable, "-m", *command],
                cwd=ROOT,
                env=self.env | (env or {}) | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@pytest.fixture
def stack(tmp_path) -> Iterator[OverlayStack]:
    with two_engines(tmp_path) as (first, second):
        share_image(first, second)
        made = OverlayStack(
            tmp_path / "var",
            docker_url=first.engine.base_url,
            gpus=1,
            extra_env={"TESSERA_ALLOWED_HOSTS": f"{first.address},127.0.0.1"},
        )
        made.machines = {"web": first, "node-a": first, "node-b": second}
        with made:
            yield made


def test_a_gang_with_default_policies_adds_up_over_two_engines_and_a_killed_agent(stack):
    job = stack.submit(["python3", "-c", ADD_UP], replicas=2, device={"gpus": 1}, backend="gloo")
    stack.until_status(job, "running")
    until(lambda: "adding" in stack.call("GET", f"/jobs/{job}/logs?rank=0"), what="the first sums")
    stack.kill("node-b")
    stack.start_agent("node-b")
    ended = stack.until_status(job, "succeeded", "failed", "cancelled")
    assert ended["status"] == "succeeded", (stack.log("node-a"), stack.log("node-b"))
    assert "sum 3" in stack.call("GET", f"/jobs/{job}/logs?rank=0")
    assert "sum 3" in stack.call("GET", f"/jobs/{job}/logs?rank=1")
    machines = (stack.machines["node-a"], stack.machines["node-b"])
    until(
        lambda: [m.left_over() for m in machines] == [NOTHING, NOTHING], what="nothing to be left"
    )


def test_a_gang_goes_on_where_a_node_gets_another_address(stack):
    """As by DHCP. Its agent finds out by itself, and the others learn it from the portal."""
    job = stack.submit(["python3", "-c", ADD_UP], replicas=2, device={"gpus": 1}, backend="gloo")
    stack.until_status(job, "running")
    until(lambda: "adding" in stack.call("GET", f"/jobs/{job}/logs?rank=0"), what="the first sums")
    stack.machines["node-b"].move("10.77.0.21")
    ended = stack.until_status(job, "succeeded", "failed", "cancelled")
    assert ended["status"] == "succeeded", (stack.log("node-a"), stack.log("node-b"))
    assert "address_changed" in stack.log("node-b")
