"""Shares of containers: one user, two folders mounted one by one, and nobody else's memory."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agents.contract.documents import RuntimeKind
from agents.facts.device_keys import device_key
from agents.mps.control import ControlCode, ControlFailure
from agents.mps.daemons import EXEC_AS_USER, MpsDaemon
from agents.mps.grants import daemon_folders, share_device, share_grant
from agents.mps.record import DaemonRecord
from agents.mps.support import control_program, mps_support
from tests.contract.replicas import a_replica
from tests.unit.mps.contained import DEVICE, NOBODY, a_shared
from tests.unit.mps.stage import a_share

can_mount = subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
needs_mounts = pytest.mark.skipif(not can_mount, reason="needs a root that may mount")


def test_a_container_is_given_the_two_folders_of_its_daemon_and_limits_for_each_process(home):
    replica = a_shared(processes=4)
    given = share_grant(home.root, replica, [DEVICE], in_containers=True)
    assert given.mounts == ((str(home.pipe), str(home.pipe)), (str(home.shm), "/dev/shm"))
    assert given.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "10"
    assert given.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=2000M"
    assert share_grant(home.root, replica, [DEVICE], in_containers=False).mounts == ()


def test_replicas_without_a_share_are_given_nothing(home):
    given = share_grant(home.root, a_replica(), [], in_containers=True)
    assert (given.env, given.mounts) == ({}, ())


def test_projects_devices_and_agents_have_homes_of_their_own(var):
    share = share_device(a_shared())
    place, other = device_key(share), device_key(replace(share, gpu_uuid="GPU-2"))
    homes = [
        daemon_folders(var, "p-1", place),
        daemon_folders(var, "p-2", place),
        daemon_folders(var, "p-1", other),
    ]
    homes.append(daemon_folders(var / "other", "p-1", place))
    assert len({home.key for home in homes}) == len({home.shm for home in homes}) == 4


@needs_mounts
def test_the_daemon_runs_as_the_jobs_user_with_their_shared_memory_and_the_host_keeps_its_own(home):
    home.shm.mkdir(mode=0o700)
    os.chown(home.shm, NOBODY, NOBODY)
    told = "id -u; id -g; touch /dev/shm/theirs; ls /dev/shm"
    words = [sys.executable, "-I", "-S", str(EXEC_AS_USER), str(NOBODY), str(home.shm)]
    said = subprocess.run([*words, "/bin/sh", "-c", told], capture_output=True, text=True)
    assert said.stdout.split() == [str(NOBODY), str(NOBODY), "theirs"], said.stderr
    assert [path.name for path in home.shm.iterdir()] == ["theirs"]
    assert not Path("/dev/shm/theirs").exists()


@needs_mounts
def test_a_program_that_the_user_may_not_run_is_named(home):
    home.shm.mkdir(mode=0o700)
    words = [sys.executable, "-I", "-S", str(EXEC_AS_USER), str(NOBODY), str(home.shm)]
    said = subprocess.run([*words, "/no-such-program"], capture_output=True, text=True)
    assert said.returncode and "cannot run /no-such-program" in said.stderr


def test_a_folder_that_the_jobs_user_cannot_pass_is_named_before_the_daemon_starts(home, var):
    var.chmod(0o700)
    record = DaemonRecord("p-1", device_key(a_share(DEVICE)), DEVICE, uid=os.getuid() + 1)
    daemon = MpsDaemon(home, record, ("true",), in_containers=True)
    daemon.save()
    with pytest.raises(ControlFailure, match=f"chmod o\\+x {var}") as failure:
        daemon._require_access()
    assert failure.value.code is ControlCode.PATH


def test_containers_get_no_share_from_an_agent_that_is_not_root(var, monkeypatch):
    words = control_program("true", None)
    docker = partial(mps_support, words, RuntimeKind.DOCKER, NOBODY, "13.1", var)
    assert (docker().unavailable_reason == "") is (os.geteuid() == 0)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert "must be root" in docker().unavailable_reason
    assert docker().share_clients == 0
    plain = mps_support(words, RuntimeKind.PROCESS, NOBODY, "13.1", var)
    assert (plain.unavailable_reason, plain.uid, plain.share_clients) == ("", 1_000, 60)


def test_a_node_whose_folder_is_too_long_for_sockets_gives_no_share(tmp_path):
    long = tmp_path / ("x" * 90)
    found = mps_support(("true",), RuntimeKind.PROCESS, 0, "13.0", long)
    assert "too long for MPS sockets" in found.unavailable_reason
