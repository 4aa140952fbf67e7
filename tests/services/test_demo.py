"""`manage.py demo` as a newcomer meets it: a result, clear refusals, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services.stack import ROOT, environ, until

pytestmark = pytest.mark.services
DEMO = [sys.executable, "manage.py", "demo"]


def run(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [*DEMO, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500, check=False
    )


@contextmanager
def running(var: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*DEMO, *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ(var),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()


def until_it_says(demo: subprocess.Popen[str], words: str) -> list[str]:
    """Read its lines up to the one with these words."""
    assert demo.stdout
    said = []
    for line in demo.stdout:
        said.append(line)
        if words in line:
            return said
    raise AssertionError("".join(said))


def left_of(var: Path) -> dict[int, str]:
    """Live processes that know the var folder, by their arguments or their environment."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            if str(var).encode() in words + (entry / "environ").read_bytes():
                found[int(entry.name)] = words.replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_it_runs_the_example_and_ends_with_one_line_of_json(tmp_path):
    var = tmp_path / "var"
    first = run(env=environ(var, DEMO_EXIT="1"))
    assert first.returncode == 0, first.stdout + first.stderr
    result = json.loads(first.stdout.splitlines()[-1])
    assert result["state"] == "succeeded"
    assert result["allreduce_ok"] is True
    assert result["replicas"] == 2
    assert result["submit_to_running_s"] > 0
    assert result["gpu_hours"] > 0
    assert first.stdout.count("shown only now") == 2
    assert left_of(var) == {}

    again = run("--no-job", env=environ(var, DEMO_EXIT="1"))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "shown only now" not in again.stdout
    assert "changepassword alice" in again.stdout


def test_a_taken_port_is_told_in_one_sentence_with_the_variable_to_set(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run(env=environ(tmp_path / "var", TESSERA_PORT=port))
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert port in refused.stderr
    assert "set TESSERA_PORT" in refused.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TESSERA_VAR", "/proc/1/var"),
        ("TESSERA_PORT", "http"),
        ("TESSERA_DATABASE_URL", "postgres://somewhere/real"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_exit_2(tmp_path, name, value):
    refused = run(env=environ(tmp_path / "var") | {name: value})
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert name in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind_however_it_ends_in_the_middle_of_a_job(tmp_path, how):
    var = tmp_path / "var"
    with running(var) as demo:
        until_it_says(demo, "preparing")  # told when it is over: the replicas run now
        assert any("child.py" in words for words in left_of(var).values())
        demo.send_signal(how)
        rest = demo.stdout.read() if demo.stdout else ""
        assert demo.wait(400) == (-signal.SIGKILL if how == signal.SIGKILL else 0), rest
        until(lambda: not left_of(var), what=f"{left_of(var)} to end")


@pytest.mark.slow
def test_a_part_that_dies_ends_the_whole_and_is_named(tmp_path):
    var = tmp_path / "var"
    with running(var, "--no-job") as demo:
        until_it_says(demo, "runs until Ctrl-C")
        agents = [
            pid
            for pid, words in left_of(var).items()
            if "-m agents run" in words and "node-b" in words and "child_guard" not in words
        ]
        assert len(agents) == 1
        os.kill(agents[0], signal.SIGKILL)
        said = demo.stdout.read() if demo.stdout else ""
        assert demo.wait(400) == 1
        assert "node-b exited with code 137" in said
        assert left_of(var) == {}
