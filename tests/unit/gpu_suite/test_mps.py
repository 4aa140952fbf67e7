"""The control daemon that the suite starts: private, asked, ended, and never left behind."""

import sys
from pathlib import Path

import pytest

from tests.gpu import mps

FAKE = Path(__file__).with_name("control.py")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The fake under the real name, alone on PATH."""
    path = tmp_path / "bin" / mps.PROGRAM
    path.parent.mkdir()
    path.write_text(FAKE.read_text().replace("#!/usr/bin/env python3", f"#!{sys.executable}"))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent))
    return str(path)


def test_a_machine_without_the_program_is_told_from_one_with_it(program, monkeypatch):
    assert mps.installed() == program
    monkeypatch.setenv("PATH", str(Path(program).parent.parent))
    assert mps.installed() is None


def test_a_daemon_answers_and_ends_when_told(program):
    with mps.started(program) as control:
        assert control.ask("get_server_list") == ""
        assert control.ask("get_default_active_thread_percentage") == "100.0"
        assert control.quit() == 0
        with pytest.raises(mps.MpsFailure, match="Cannot find MPS control daemon"):
            control.ask("get_server_list")


def test_its_folders_are_this_users_alone_and_gone_afterwards(program):
    with mps.started(program) as control:
        folder = control.folder
        assert (folder / "pipe").stat().st_mode & 0o077 == 0
        assert [p.name for p in control.pipes.iterdir()] == ["control"]
    assert not folder.exists()


def test_what_others_set_for_mps_does_not_reach_it(program, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "theirs"))
    with mps.started(program) as control:
        assert control.pipes.is_dir()
    assert not (tmp_path / "theirs").exists()


def test_two_daemons_do_not_know_each_other(program):
    with mps.started(program) as one, mps.started(program) as other:
        one.ask("set_default_active_thread_percentage 40")
        assert float(one.ask("get_default_active_thread_percentage")) == 40
        assert float(other.ask("get_default_active_thread_percentage")) == 100


def test_one_that_dies_at_once_is_told_with_its_own_words(program, monkeypatch):
    monkeypatch.setenv("CONTROL_TRICK", "dies")
    with pytest.raises(mps.MpsFailure, match="ended with 7: no GPU is here"), mps.started(program):
        pytest.fail("it was taken for a running one")


def test_one_that_does_not_quit_is_told_and_ended(program, monkeypatch):
    monkeypatch.setenv("CONTROL_TRICK", "stays")
    with mps.started(program) as control:
        with pytest.raises(mps.MpsFailure, match="still runs"):
            control.quit(within=0.1)
        daemon = control.daemon
    assert daemon.returncode is not None


def test_none_is_left_behind_by_a_check_that_fails(program):
    with pytest.raises(ZeroDivisionError), mps.started(program) as control:
        raise ZeroDivisionError
    assert control.daemon.returncode is not None
    assert not control.folder.exists()
