"""Progress of the demonstration where output is no terminal, and the commands that it prints."""

import io
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from portal.demo.remedies import manage_command
from portal.demo.terminal import CLEAR, Screen
from portal.settings_choice import SettingsNotChosen, choose_settings
from requirements.install import write_commands

ROOT = Path(__file__).resolve().parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_line_when_a_phase_begins_and_one_when_it_ends():
    out = io.StringIO()
    screen = Screen(out)
    screen.phase("web", "it loads the planner")
    screen.phase("web", "still the same")
    screen.phase("nodes")
    screen.finish()
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[0] == ["web", "…", "s", "it", "loads", "the", "planner"]
    assert [line[0] for line in lines] == ["web", "web", "nodes", "nodes"]


def test_a_long_phase_says_every_few_seconds_what_it_waits_for():
    out = io.StringIO()
    screen = Screen(out, plain_seconds=0)
    screen.phase("web", "first")
    screen.phase("web", "waiting for the web process")
    assert out.getvalue().splitlines()[1].endswith("waiting for the web process")


def test_a_terminal_keeps_one_line_that_is_written_anew():
    out = Terminal()
    screen = Screen(out)
    screen.phase("web", "first")
    screen.phase("web", "second")
    assert out.getvalue().count(CLEAR) == 2 and "\n" not in out.getvalue()


@pytest.mark.slow
def test_a_printed_command_works_with_any_folder_name(tmp_path):
    odd = tmp_path / "a folder; of 'mine'"
    command = manage_command("demo", "--help", environ={"TESSERA_VAR": str(odd)})
    done = subprocess.run(
        command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "--new-passwords" in done.stdout, done.stderr


def test_commands_for_the_users_of_a_demonstration_need_no_choice_of_settings(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("portal.settings_choice.find_spec", lambda name: None)
    environ = {"TESSERA_VAR": str(tmp_path)}
    with pytest.raises(SettingsNotChosen):
        choose_settings(environ, ["manage.py", "token"])
    (tmp_path / "demo.lock").touch()
    with pytest.raises(SettingsNotChosen):
        choose_settings(environ, ["uvicorn", "portal.asgi:application"])
    choose_settings(environ, ["manage.py", "token"])
    assert environ["DJANGO_SETTINGS_MODULE"] == "portal.settings.dev"


@pytest.mark.slow
def test_an_installed_checkout_has_the_commands_of_the_wheel(tmp_path):
    """In a folder with a space, whose path no first line of a script can have."""
    home = tmp_path / "my checkout" / ".venv"
    venv.create(home, symlinks=True, with_pip=False)
    (home / "lib").rename(home / "lib-of-its-own")
    (home / "lib").symlink_to(Path(sys.prefix) / "lib")  # with the packages of this one
    write_commands(home, ROOT)
    for name in ("tessera", "tessera-agent", "tessera-portal"):
        done = subprocess.run(
            [home / "bin" / name, "--help"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "DJANGO_SETTINGS_MODULE": "portal.settings.dev"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
    assert not (tmp_path / "var").exists()
