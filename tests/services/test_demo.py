"""`manage.py demo` as a newcomer meets it: a result, clear refusals, and nothing left behind."""

import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.conf import global_settings
from django.contrib.auth.hashers import check_password
from django.test import override_settings

from tests.services.stack import ROOT, environ, until

pytestmark = pytest.mark.services
DEMO = [sys.executable, "manage.py", "demo"]


def run(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [*DEMO, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500, check=False
    )


@contextmanager
def running(var: Path, *arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    command = [*DEMO, *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ(var, **env),
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


def passwords_in(output: str) -> dict[str, str]:
    """The passwords that were told, by user."""
    words = [line.split() for line in output.splitlines() if " password " in line]
    return {name: text for name, _, text in words}


def as_printed(output: str, before: str) -> subprocess.CompletedProcess[str]:
    """Run the command that follows these words, as a person would: in the checkout, with an
    environment of no Tessera."""
    command = next(line.split(before)[1] for line in output.splitlines() if before in line)
    env = {name: value for name, value in environ(Path("var")).items() if "TESSERA" not in name}
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done


def is_password(var: Path, name: str, text: str) -> bool:
    """Whether the database has this password for the user."""
    with closing(sqlite3.connect(var / "tessera.sqlite3")) as database:
        rows = database.execute("select password from accounts_user where username = ?", [name])
        with override_settings(PASSWORD_HASHERS=global_settings.PASSWORD_HASHERS):
            return check_password(text, rows.fetchone()[0])


def failing_child(folder: Path, module: str) -> dict[str, str]:
    """An environment in which `python -m MODULE` ends with an error."""
    return _instead(folder, module, "import sys; sys.exit('sorry, not today')")


def waiting_child(folder: Path, module: str, gate: Path) -> dict[str, str]:
    """An environment in which `python -m MODULE` begins once the file `gate` exists."""
    return _instead(
        folder,
        module,
        "import pathlib, runpy, sys, time\n"
        "print('still loading', flush=True)\n"
        f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.2)\n"
        f"sys.path.remove({str(folder / 'instead')!r})\n"
        f"sys.modules.pop({module!r}, None)\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n",
    )


def _instead(folder: Path, module: str, program: str) -> dict[str, str]:
    package = folder / "instead" / module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(program)
    return {"PYTHONPATH": str(folder / "instead")}


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
    assert set(passwords_in(first.stdout)) == {"admin", "alice"}
    for phase in ("database", "web", "nodes", "worker", "running"):
        assert f"\n  {phase} " in f"\n{first.stdout}", first.stdout
    assert left_of(var) == {}

    again = run("--no-job", env=environ(var, DEMO_EXIT="1"))
    assert again.returncode == 0, again.stdout + again.stderr
    assert passwords_in(again.stdout) == {}
    new = as_printed(again.stdout, "for new passwords: ")
    assert set(passwords_in(new.stdout)) == {"admin", "alice"}


@pytest.mark.slow
def test_a_first_start_that_fails_has_told_the_passwords_and_the_remedy_works(tmp_path):
    var = tmp_path / "var"
    failed = run("--no-job", env=environ(var, DEMO_EXIT="1", **failing_child(tmp_path, "uvicorn")))
    assert failed.returncode == 1
    assert "web exited with code 1" in failed.stderr and "sorry, not today" in failed.stderr
    told = passwords_in(failed.stdout)
    assert set(told) == {"admin", "alice"}
    assert all(is_password(var, name, text) for name, text in told.items())

    new = passwords_in(as_printed(failed.stdout, "for new ones: ").stdout)
    assert set(new) == {"admin", "alice"} and not set(new.values()) & set(told.values())
    assert all(is_password(var, name, text) for name, text in new.items())
    assert not any(is_password(var, name, text) for name, text in told.items())


@pytest.mark.slow
def test_a_slow_child_is_waited_for_and_what_it_does_is_told_where_there_is_no_terminal(tmp_path):
    var, gate = tmp_path / "var", tmp_path / "gate"
    with running(var, "--no-job", **waiting_child(tmp_path, "uvicorn", gate)) as demo:
        said = until_it_says(demo, "ends with: still loading")
        assert "waiting for the web process" in said[-1]
        assert any("password" in line for line in said)
        gate.touch()
        until_it_says(demo, "runs until Ctrl-C")


def test_a_running_demonstration_is_named_with_a_command_that_starts_one_beside_it(tmp_path):
    var = tmp_path / "var"
    var.mkdir()
    with (var / "demo.lock").open("w") as lock:
        lock.write("http://127.0.0.1:8123")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = run(env=environ(var))
    assert refused.returncode == 2
    assert "open http://127.0.0.1:8123, or start one beside it: TESSERA_VAR=" in refused.stderr


def test_new_passwords_where_nothing_was_started_make_no_folder(tmp_path):
    refused = run("--new-passwords", env=environ(tmp_path / "var"))
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert f"TESSERA_VAR={tmp_path / 'var'} " in refused.stderr
    assert not (tmp_path / "var").exists()


def test_a_command_in_the_wrong_folder_says_so_and_leaves_nothing_behind(tmp_path):
    env = environ(tmp_path / "var") | {"DJANGO_SETTINGS_MODULE": "portal.settings.dev"}
    command = [sys.executable, "manage.py", "changepassword", "alice"]
    refused = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("There is no database of Tessera in ")
    assert not (tmp_path / "var").exists()


def test_a_taken_port_is_told_in_one_sentence_with_the_variable_to_set(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run(env=environ(tmp_path / "var", TESSERA_PORT=port))
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert port in refused.stderr
    assert "with a free one: TESSERA_VAR=" in refused.stderr
    assert " TESSERA_PORT=" in refused.stderr


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
        until_it_says(demo, "  running")
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
