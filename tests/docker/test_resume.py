"""A job in containers that is stopped for more urgent work goes on at its saved step, in the same
and in another container's place, as its user and with its files."""

from pathlib import Path

import docker
import pytest

from tests.services.stack import Stack, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

WHOLE = {"device": {"gpus": 1}, "grace": "1s"}
GOALS = (34, 64, 97)
# Saves each tenth step. Each attempt but the last waits at its goal, to be stopped.
PROGRAM = """
import json, os, pathlib, time
home, out = (pathlib.Path(os.environ[f"TESSERA_{{name}}_DIR"]) for name in ("CHECKPOINT", "OUTPUT"))
saved = home / "saved.json"
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
assert not step or (home / "parts/weights").read_text() == "w" * step
(home / "parts").mkdir(exist_ok=True)
print("began at", step, flush=True)
goals = {goals}
goal = goals[int(os.environ["TESSERA_ATTEMPT"]) - 1]
while step < goal:
    step += 1
    if step % 10 == 0:
        (home / "parts/weights").write_text("w" * step)
        (home / ".new").write_text(json.dumps({{"step": step}}))
        (home / ".new").rename(saved)
(out / "result.txt").write_text(str(step))
print("reached", step, flush=True)
while goal != goals[-1]:
    time.sleep(0.05)
"""


class Urgent:
    """Work of high priority, which holds one GPU until it is cancelled."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.job = stack.submit(["sleep", "3600"], priority="high", **WHOLE)
        stack.until_status(self.job, "running")

    def end(self) -> None:
        self.stack.call("POST", f"/jobs/{self.job}/cancel")


def test_a_job_in_containers_goes_on_at_its_step(tmp_path: Path, docker_engine, docker_image):
    client = docker.DockerClient(base_url=docker_engine, version="1.41")
    with Stack(var=tmp_path, docker_url=docker_engine, gpus=1) as stack:
        stack.manage_program("tests.services.set_policy", "protection_seconds=0")
        command = ["python3", "-c", PROGRAM.format(goals=GOALS)]
        job = stack.submit(command, priority="low", **WHOLE)

        def trees(kind: str) -> list[dict]:
            found = stack.call("GET", f"/jobs/{job}/trees")["results"]
            return [tree for tree in found if tree["kind"] == kind]

        def until_at(goal: int) -> None:
            step = goal - goal % 10
            until(lambda: step in [tree["step"] for tree in trees("checkpoint")], what=f"{step}")

        until_at(GOALS[0])
        filler = Urgent(stack)
        first = Urgent(stack)
        first.end()
        until_at(GOALS[1])
        second = Urgent(stack)
        filler.end()
        seen = stack.until_status(job, "succeeded", "failed")
        second.end()

        outcomes = [attempt["outcome"] for attempt in seen["attempts"]]
        assert outcomes == ["preempted", "preempted", "succeeded"]
        one, two, three = (attempt["replicas"][0]["node"] for attempt in seen["attempts"])
        assert one == two != three
        for attempt, began in enumerate((0, 30, 60), start=1):
            params = {"attempt": attempt}
            log = stack.call("GET", f"/jobs/{job}/logs", params=params)
            assert f"began at {began}\n" in log
        outputs = until(lambda: len(found := trees("output")) == 3 and found, what="outputs")
        (last,) = [tree for tree in outputs if tree["attempt"] == 3]
        params = {"path": "result.txt"}
        assert stack.call("GET", f"/trees/{last['id']}/content", params=params) == "97"
        labels = {"label": f"tessera.job={seen['uid']}"}
        until(lambda: not client.containers.list(all=True, filters=labels), what="their removal")
        for urgent in (filler, first, second):
            stack.until_status(urgent.job, "cancelled")
    client.close()
