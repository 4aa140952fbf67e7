"""Code of a job from a git server, through portal and agent as real processes."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from agents.git_code.program import find_git

pytestmark = [pytest.mark.services, pytest.mark.slow]
ADDRESS = "10.9.8.7"
SETUP = f'ip link set lo up && ip addr add {ADDRESS}/32 dev lo && exec "$@"'


@pytest.mark.skipif(
    os.geteuid() != 0 or not (find_git() and shutil.which("unshare") and shutil.which("ip")),
    reason="needs root, git 2.37, unshare and ip",
)
def test_a_job_runs_the_commit_of_a_private_repository(tmp_path):
    program = (sys.executable, "-m", "tests.services.git_stack", str(tmp_path), ADDRESS)
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", SETUP, "sh", *program], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-4_000:]
    seen = json.loads(done.stdout)
    first, second = seen["commits"]
    assert seen["first"] == [first, first], "a later attempt has the commit of the first"
    assert seen["newer"] == [second], "a new job has what the branch means now"
    assert "True second" in str(seen["log"])
    assert seen["refused"]["code"] == "git_unfetched"
    assert "other.git" in seen["refused"]["sentence"]
    assert "fetches no code from git.example" in seen["waiting"]
    assert seen["leaks"] == []
