"""Daemons of shares start outside of the agent's service, where systemd runs the machine."""

import os
import shutil
import subprocess

import pytest

from agents.facts.device_keys import device_key
from agents.host import service_manager
from agents.mps.daemons import MpsDaemon
from agents.mps.record import DaemonRecord
from agents.mps.support import SIMULATED_CONTROL, control_program
from tests.unit.mps.contained import DEVICE
from tests.unit.mps.stage import a_share, is_gone, until

PROGRAM = control_program("", SIMULATED_CONTROL)[:4]  # without a simulated driver
# As systemd-run does with --scope: it becomes the program.
SCOPE = """#!/bin/sh
echo "$@" > {folder}/scope
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
NO_BUS = """#!/bin/sh
echo "Failed to connect to bus: No such file or directory" >&2
exit 1
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's agent starts scopes")


@pytest.fixture
def daemon(home):
    place = device_key(a_share(DEVICE, 40, 8_000))
    daemon = MpsDaemon(
        home, DaemonRecord("p-1", place, DEVICE, os.getuid()), PROGRAM, in_containers=False
    )
    daemon.save()
    for folder in (home.pipe, home.log):
        folder.mkdir()
    yield daemon
    if pid := daemon.running_pid():
        daemon.control.quit(1)
        until(lambda: is_gone(pid), "the daemon's end")


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """A machine that systemd runs, with this program as its systemd-run."""

    def with_program(text):
        program = tmp_path / "systemd-run"
        program.write_text(text.format(folder=tmp_path))
        program.chmod(0o755)
        monkeypatch.setattr(service_manager, "SYSTEMD_RUNS", tmp_path)
        monkeypatch.setattr(service_manager, "SEARCH_PATH", str(tmp_path))
        return tmp_path / "scope"

    return with_program


def test_a_daemon_has_a_scope_of_its_own_and_is_adopted_from_it(daemon, systemd):
    scope = systemd(SCOPE)
    daemon._launch(())
    assert until(daemon.running_pid, "the daemon")
    words = scope.read_text().split()
    assert words[0] == "--scope"
    assert words[words.index("--") + 1 :][: len(PROGRAM)] == list(PROGRAM)


def test_where_no_scope_can_be_made_the_daemon_starts_without(daemon, systemd):
    systemd(NO_BUS)
    daemon._launch(())
    assert until(daemon.running_pid, "the daemon")


def test_a_daemon_is_in_no_session_of_the_agents_terminal(daemon, monkeypatch, tmp_path):
    monkeypatch.setattr(service_manager, "SYSTEMD_RUNS", tmp_path / "nothing")
    assert service_manager.scope_prefix("a daemon") == ()
    daemon._launch(())
    assert os.getsid(until(daemon.running_pid, "the daemon")) != os.getsid(0)


@pytest.mark.skipif(shutil.which("systemd-run") is None, reason="systemd-run is missing")
def test_the_real_program_knows_these_arguments(monkeypatch, tmp_path):
    """It fails on an unknown argument before it looks for the bus."""
    monkeypatch.setattr(service_manager, "SYSTEMD_RUNS", tmp_path)
    words = service_manager.scope_prefix("a daemon")
    done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    assert "unrecognized option" not in done.stderr and "invalid option" not in done.stderr
    assert done.returncode == 0 or "bus" in done.stderr or "systemd" in done.stderr
