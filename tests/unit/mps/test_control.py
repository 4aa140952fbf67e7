"""The control daemon's own protocol, over the simulated program as a real process."""

import os
import subprocess

import pytest

from agents.mps.control import PID_FILE, RUNS_ALREADY, ControlCode, ControlFailure, MpsControl
from agents.mps.support import SIMULATED_CONTROL, control_program
from tests.unit.mps.stage import is_gone, until

PROGRAM = control_program("", SIMULATED_CONTROL)[:4]  # without a simulated driver
DEVICE = "GPU-5a1d"


@pytest.fixture
def control(var):
    pipe, log = var / "p", var / "l"
    pipe.mkdir()
    log.mkdir()
    control = MpsControl(PROGRAM, pipe, log)
    yield control
    if (pipe / PID_FILE).exists():
        control.quit(1)
        until(lambda: not (pipe / PID_FILE).exists(), "the daemon's end")


def daemon_pid(control):
    return int((control.pipe / PID_FILE).read_text())


def test_a_daemon_starts_servers_says_who_they_are_and_leaves_nothing_when_it_quits(control):
    control.launch(DEVICE)
    assert control.servers() == []
    control.start_server(os.getuid())
    (server,) = control.servers()
    assert control.status(server) == "ACTIVE"
    daemon = daemon_pid(control)
    control.quit(1)
    until(lambda: is_gone(server) and is_gone(daemon), "both processes' end")
    assert not (control.pipe / PID_FILE).exists()


def test_a_second_daemon_in_one_pipe_directory_is_never_started(control):
    control.launch(DEVICE)
    first = daemon_pid(control)
    control.launch(DEVICE)
    assert daemon_pid(control) == first
    said = subprocess.run(
        [*PROGRAM, "-f"], env=control.environment(DEVICE), capture_output=True, text=True
    )
    assert (said.returncode, said.stdout.strip()) == (1, RUNS_ALREADY)


def test_limits_are_those_of_the_next_server_and_of_the_one_that_runs(control):
    control.launch(DEVICE)
    control.set_limits(25, 4_096)
    control.start_server(os.getuid())
    (server,) = control.servers()
    assert control.send(f"get_active_thread_percentage {server}") == ["25.0"]
    control.set_limits(60, 8_192)
    assert control.send("get_default_active_thread_percentage") == ["60.0"]
    assert control.send(f"get_active_thread_percentage {server}") == ["60.0"]
    assert control.send("get_default_device_pinned_mem_limit 0") == ["8G"]
    assert control.send(f"get_device_pinned_mem_limit {server} 0") == ["8G"]


@pytest.mark.parametrize("threads", [0, 101])
def test_a_limit_that_the_daemon_passes_over_is_a_refusal(control, threads):
    control.launch(DEVICE)
    with pytest.raises(ControlFailure, match=rf"keeps 100.0 % .*, not {threads} %") as refused:
        control.set_limits(threads, 4_096)
    assert refused.value.code is ControlCode.REFUSED


def test_a_daemon_that_answers_a_limit_in_words_is_believed(control):
    MpsControl(("echo", "done"), control.pipe, control.log).set_limits(25, 4_096)


def test_clients_are_listed_by_server_and_by_device_and_can_be_ended(control):
    control.launch(DEVICE)
    control.start_server(os.getuid())
    (server,) = control.servers()
    control.send(f"simulate_client {server} 4711")
    assert control.clients(server) == [4711]
    assert control.device_clients() == [f"{DEVICE} 4711"]
    with pytest.raises(ControlFailure, match="it has clients"):
        control.shutdown_server(server)
    control.terminate_client(server, 4711)
    control.shutdown_server(server)
    assert control.servers() == []


def test_a_server_in_fault_says_so_and_takes_nobody(control):
    control.launch(DEVICE)
    control.start_server(os.getuid())
    (server,) = control.servers()
    control.send(f"simulate_fault {server}")
    assert control.status(server) == "FAULT"
    with pytest.raises(ControlFailure, match="cannot take clients"):
        control.send(f"simulate_client {server} 4711")


@pytest.mark.parametrize(
    "command",
    [
        "no_such_command",
        "",
        "get_server_status 1",
        "get_server_status one",
        "start_server 0",
        "terminate_client 1 2",
    ],
)
def test_what_the_daemon_does_not_take_is_a_refusal_with_its_words(control, command):
    control.launch(DEVICE)
    with pytest.raises(ControlFailure, match="MPS refused") as refused:
        control.send(command)
    assert refused.value.code is ControlCode.REFUSED


def test_without_a_daemon_every_command_says_so(control):
    with pytest.raises(ControlFailure, match="no MPS daemon listens") as failure:
        control.servers()
    assert failure.value.code is ControlCode.NO_DAEMON


def test_a_program_that_is_not_there_is_named(control):
    missing = MpsControl(("no-such-mps-control",), control.pipe, control.log)
    with pytest.raises(ControlFailure, match="no-such-mps-control is not installed") as failure:
        missing.launch(DEVICE)
    assert failure.value.code is ControlCode.MISSING


def test_a_daemon_that_never_answers_is_given_up(control):
    deaf = MpsControl(("sleep", "60"), control.pipe, control.log, seconds=0.05)
    with pytest.raises(ControlFailure, match="did not answer") as failure:
        deaf.servers()
    assert failure.value.code is ControlCode.TIMEOUT


def test_a_folder_too_long_for_a_socket_is_refused_before_anything_starts(control, tmp_path):
    long = MpsControl(PROGRAM, tmp_path / ("x" * 100), control.log)
    with pytest.raises(ControlFailure, match="too long for a socket") as failure:
        long.launch(DEVICE)
    assert failure.value.code is ControlCode.PATH


def test_the_daemon_sees_one_device_and_none_of_the_agents_environment(control, monkeypatch):
    monkeypatch.setenv("TESSERA_JOIN_TOKEN", "secret")
    env = control.environment(DEVICE)
    assert env["CUDA_VISIBLE_DEVICES"] == DEVICE
    assert "TESSERA_JOIN_TOKEN" not in env
