"""The MPS control daemon of this machine speaks as the agent expects. No server, no client."""

import pytest

from tests.gpu.mps import PROGRAM, Control, MpsFailure, installed, started


@pytest.fixture
def control():
    program = installed()
    if program is None:
        pytest.skip(f"this machine has no {PROGRAM}")
    with started(program) as running:
        yield running


def test_a_daemon_in_private_folders_answers_and_has_no_server(control: Control):
    assert control.ask("get_server_list") == ""


def test_it_keeps_its_pipes_in_the_folder_it_was_given(control: Control):
    assert list(control.pipes.iterdir())


def test_without_a_default_set_a_client_may_use_every_thread(control: Control):
    assert float(control.ask("get_default_active_thread_percentage")) == 100.0


def test_a_default_percentage_holds_for_this_daemon_alone(control: Control):
    control.ask("set_default_active_thread_percentage 40")
    assert float(control.ask("get_default_active_thread_percentage")) == 40.0


def test_it_ends_by_itself_when_told_and_then_answers_no_more(control: Control):
    assert control.quit() == 0
    with pytest.raises(MpsFailure):
        control.ask("get_server_list")
