"""A job that saves goes on where it saved, through the whole product: after it was stopped for more
urgent work, on the same node and on another one, after it failed, and after its node was lost."""

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]

WHOLE = {"device": {"gpus": 1}, "grace": "2s"}
# Steps between two checkpoints.
INTERVAL = 10
# Runs up to the step that `goal` names, and waits there. It is killed without a chance to save.
PROGRAM = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_DFL)
control = pathlib.Path({control!r})
home, out = (pathlib.Path(os.environ[name]) for name in
             ("TESSERA_CHECKPOINT_DIR", "TESSERA_OUTPUT_DIR"))
saved = home / "saved.json"
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
assert not step or (home / "weights").read_text() == "w" * step
(out / "began.txt").write_text(str(step))
while not (control / "finish").exists():
    if (control / "fail").exists():
        (control / "fail").unlink()
        sys.exit(1)
    if step >= int((control / "goal").read_text() or 0):
        time.sleep(0.05)
        continue
    step += 1
    with (control / "ledger").open("a") as ledger:
        ledger.write(f"{{os.environ['TESSERA_ATTEMPT']}} {{os.getpid()}} {{step}}\\n")
    if step % {interval} == 0:
        (home / "weights").write_text("w" * step)
        (home / "saved.json.new").write_text(json.dumps({{"step": step}}))
        (home / "saved.json.new").rename(saved)
(out / "result.txt").write_text(str(step))
"""
# Runs until the file is there.
FILLER = "import pathlib, time\nwhile not pathlib.Path({path!r}).exists(): time.sleep(0.05)"


@dataclass
class Counting:
    """A job that counts steps, and what it may do."""

    stack: Stack
    control: Path
    job: str = ""

    def submit(self, **fields: object) -> None:
        self.control.mkdir()
        self.let_run_to(0)
        program = PROGRAM.format(control=str(self.control), interval=INTERVAL)
        command = ["python3", "-c", program]
        self.job = self.stack.submit(command, priority="low", **(WHOLE | fields))

    def let_run_to(self, goal: int) -> None:
        (self.control / ".goal").write_text(str(goal))
        (self.control / ".goal").rename(self.control / "goal")

    def until_at(self, attempt: int, step: int) -> int:
        """Its attempt is there, and has sent its last checkpoint. The pid of its program."""
        self.let_run_to(step)
        wanted = (attempt, step)

        def pid() -> int:
            return next((pid for a, pid, s in self.ledger() if (a, s) == wanted), 0)

        found = until(pid, what=f"step {step} of attempt {attempt}")
        saved = step - step % INTERVAL
        until(lambda: saved in self.saved_steps(), what=f"the checkpoint of step {saved}")
        return found

    def ledger(self) -> list[tuple[int, int, int]]:
        """Attempt, pid and step of each step that ran."""
        path = self.control / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(map(int, line.split())) for line in lines]

    def saved_steps(self) -> list[int]:
        return [tree["step"] for tree in self.trees("checkpoint")]

    def trees(self, kind: str) -> list[dict]:
        found = self.stack.call("GET", f"/jobs/{self.job}/trees")["results"]
        return [tree for tree in found if tree["kind"] == kind]

    def nodes(self) -> list[str]:
        """Of each attempt."""
        attempts = self.stack.job(self.job)["attempts"]
        return [attempt["replicas"][0]["node"] for attempt in attempts]

    def outcomes(self) -> list[str]:
        return [attempt["outcome"] for attempt in self.stack.job(self.job)["attempts"]]

    def check_steps(self) -> None:
        """Each attempt goes on at the step that the one before saved, so none ran more than an
        interval of steps again."""
        attempts: dict[int, list[int]] = {}
        for attempt, _, step in self.ledger():
            attempts.setdefault(attempt, []).append(step)
        for before, after in pairwise(attempts.values()):
            assert after[0] == before[-1] - before[-1] % INTERVAL + 1


@pytest.fixture
def start(tmp_path, postgres_server, redis_server):
    with contextlib.ExitStack() as stacks:

        def begin(policy: str = "", **env: str) -> tuple[Stack, Counting]:
            stack = Stack(
                var=tmp_path / "var",
                database_url=postgres_server.create_database(migrated=True),
                redis_url=redis_server.url(),
                gpus=1,
                extra_env=env,
                policy=policy,
            )
            stacks.enter_context(stack)
            return stack, Counting(stack, tmp_path / "control")

        yield begin


def test_a_job_that_is_stopped_or_fails_goes_on_at_its_step_on_any_node(start, tmp_path):
    stack, counting = start()
    stack.manage_program("tests.services.set_policy", "protection_seconds=0")

    def urgent(name: str) -> tuple[str, Path]:
        end = tmp_path / f"end-{name}"
        command = ["python3", "-c", FILLER.format(path=str(end))]
        return stack.submit(command, priority="high", name=name, **WHOLE), end

    counting.submit(retries={"infrastructure": 0, "user": 1})
    counting.until_at(1, 34)
    filler, end_filler = urgent("filler")
    stack.until_status(filler, "running")

    # Stopped by the planner, as no other GPU is free; then the same node again.
    first, end_first = urgent("first")
    stack.until_status(first, "running")
    end_first.touch()
    counting.until_at(2, 64)

    # And then the other one.
    second, end_second = urgent("second")
    stack.until_status(second, "running")
    end_filler.touch()
    counting.until_at(3, 97)

    # It fails, and a retry of its own is left.
    (counting.control / "fail").touch()
    counting.until_at(4, 105)
    (counting.control / "finish").touch()
    stack.until_status(counting.job, "succeeded", "failed")

    assert counting.outcomes() == ["preempted", "preempted", "failed", "succeeded"]
    one, two, three, _ = counting.nodes()
    assert one == two != three
    counting.check_steps()
    # What each attempt wrote is kept, also that of those that were stopped.
    outputs = until(
        lambda: len(found := counting.trees("output")) == 4 and found, what="all outputs"
    )
    began = {tree["attempt"]: content(stack, tree, "began.txt") for tree in outputs}
    assert began == {1: "0", 2: "30", 3: "60", 4: "90"}
    (last,) = [tree for tree in outputs if tree["attempt"] == 4]
    assert content(stack, last, "result.txt") == "105"
    end_second.touch()


def test_a_job_whose_node_is_lost_goes_on_at_its_step_on_another(start):
    quick = {
        "TESSERA_LEASE_SECONDS": "15",
        "TESSERA_LEASE_MARGIN_SECONDS": "1",
        "TESSERA_KILL_GRACE_SECONDS": "1",
        "TESSERA_HOLD_SECONDS": "4",
        "TESSERA_UNREACHABLE_SECONDS": "6",
        "TESSERA_LOST_SECONDS": "10",
    }
    # Only of a node that ends its work by itself the portal knows that it has ended.
    stack, counting = start(policy='on_lease_end = "stop"', **quick)
    counting.submit(retries={"infrastructure": 1})
    pid = counting.until_at(1, 34)
    (lost,) = counting.nodes()
    stack.kill(lost)
    os.killpg(os.getpgid(pid), signal.SIGKILL)

    counting.until_at(2, 57)
    (counting.control / "finish").touch()
    seen = stack.until_status(counting.job, "succeeded", "failed")
    assert counting.outcomes() == ["lost", "succeeded"], json.dumps(seen, indent=1)
    assert lost not in counting.nodes()[1:]
    counting.check_steps()


def content(stack: Stack, tree: dict, path: str) -> str:
    found = stack.call("GET", f"/trees/{tree['id']}/content", params={"path": path})
    return str(found)
