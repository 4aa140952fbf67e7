"""A link that somebody puts where a share's folder goes leads the agent nowhere."""

import os
import shutil

import pytest

from agents.facts.device_keys import device_key
from agents.mps.control import ControlCode, ControlFailure
from agents.mps.daemons import MpsDaemon
from agents.mps.grants import daemon_folders
from agents.mps.record import DaemonRecord
from tests.unit.mps.stage import a_share

DEVICE = "GPU-5a1d"


@pytest.fixture
def daemon(var):
    place = device_key(a_share(DEVICE))
    home = daemon_folders(var / "mps", "p-1", place)
    daemon = MpsDaemon(
        home, DaemonRecord("p-1", place, DEVICE, uid=os.getuid()), ("true",), in_containers=True
    )
    daemon.save()
    yield daemon
    for path in (home.shm, home.pipe):
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("which", ["shm", "pipe"])
def test_a_link_is_refused_and_what_it_points_to_stays_as_it_is(daemon, tmp_path, which):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    path = getattr(daemon.folders, which)
    path.symlink_to(theirs)
    with pytest.raises(ControlFailure) as failure:
        daemon._make_folder(path)
    assert failure.value.code is ControlCode.PATH
    assert f"{path} is not the agent's own folder" in failure.value.sentence
    assert theirs.stat().st_mode & 0o777 == 0o755
    assert theirs.stat().st_uid == os.getuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(daemon):
    daemon.folders.shm.mkdir()
    os.chown(daemon.folders.shm, 12_345, 12_345)
    with pytest.raises(ControlFailure, match="is not the agent's own folder"):
        daemon._make_folder(daemon.folders.shm)


def test_the_agents_own_folder_is_found_again(daemon):
    daemon._make_folder(daemon.folders.shm)
    daemon._make_folder(daemon.folders.shm)
    assert daemon.folders.shm.stat().st_mode & 0o777 == 0o700
