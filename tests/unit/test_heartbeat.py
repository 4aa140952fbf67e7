"""The sign of life of workers and beat, and the program that an engine's health check runs."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from celery.signals import after_task_publish, beat_init, heartbeat_sent

from portal import celery as celery_app
from portal.heartbeat import VARIABLE, problem, touch

ROOT = Path(__file__).resolve().parents[2]


def look(file, *arguments):
    """What the health check does in a container."""
    env = {"PATH": os.environ["PATH"], **({VARIABLE: str(file)} if file else {})}
    command = [sys.executable, "-m", "portal.heartbeat", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_fresh_file_is_a_sign_of_life_and_no_file_is_none(tmp_path):
    file = tmp_path / "heartbeat"
    assert look(file) == (1, f"{file} does not exist: nothing was done yet\n")
    touch(str(file))
    assert look(file) == (0, "")
    assert look("") == (1, f"{VARIABLE} is not set\n")


def test_an_old_file_is_none(tmp_path):
    file = tmp_path / "heartbeat"
    touch(str(file))
    touched = file.stat().st_mtime
    assert problem(str(file), 30, touched + 30) == ""
    assert problem(str(file), 30, touched + 31) == f"{file} was last touched 31 s ago"
    os.utime(file, (touched - 1_000, touched - 1_000))
    assert look(file, "--within", "900")[0] == 1
    touch(str(file))
    assert look(file, "--within", "900") == (0, "")


def test_nobody_looks_so_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    touch("")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def file(settings, tmp_path):
    path = tmp_path / "heartbeat"
    settings.PLATFORM = replace(settings.PLATFORM, heartbeat_file=str(path))
    yield path
    after_task_publish.disconnect(celery_app.beat_alive)


def test_a_worker_that_reaches_its_broker_gives_a_sign(file):
    heartbeat_sent.send(sender=None)
    assert file.exists()


def test_beat_gives_a_sign_for_each_task_and_other_processes_give_none(file):
    after_task_publish.send(sender="scheduler.tasks.sweep")
    assert not file.exists()
    beat_init.send(sender=None)
    assert not file.exists()
    after_task_publish.send(sender="scheduler.tasks.sweep")
    assert file.exists()
