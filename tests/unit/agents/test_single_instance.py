"""One agent for one folder."""

import os
import signal
import subprocess
import sys

import pytest

from agents.state.single_instance import FolderInUse, lock_folder

HOLD = "import pathlib, sys, time; from agents.state.single_instance import lock_folder; "
HOLD += "held = lock_folder(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"


def test_a_second_agent_is_refused_with_what_to_do(tmp_path):
    with lock_folder(tmp_path), pytest.raises(FolderInUse, match="stop it, or name another --var"):
        lock_folder(tmp_path)
    lock_folder(tmp_path).close()


def test_a_killed_agent_leaves_the_folder_free(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(FolderInUse):
            lock_folder(tmp_path)
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    lock_folder(tmp_path).close()
