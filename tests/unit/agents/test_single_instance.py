"""One agent for one folder."""

import os
import signal
import subprocess
import sys

import pytest

from agents.state.single_instance import Occupied, occupy

HOLD = "import pathlib, sys, time; from agents.state.single_instance import occupy; "
HOLD += "held = occupy(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"


def test_a_second_agent_is_refused_with_what_to_do(tmp_path):
    with occupy(tmp_path), pytest.raises(Occupied, match="stop it, or name another --var"):
        occupy(tmp_path)
    occupy(tmp_path).close()


def test_a_killed_agent_leaves_the_folder_free(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(Occupied):
            occupy(tmp_path)
        os.kill(other.pid, signal.SIGKILL)
        other.wait(20)
    occupy(tmp_path).close()
