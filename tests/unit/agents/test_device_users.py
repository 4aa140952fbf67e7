"""Who has a GPU or a MIG instance open, by the files below /proc of a machine."""

import pytest

from agents.host.device_users import (
    MONITORS,
    DeviceUser,
    device_files,
    is_gpu_file,
    scan_device_users,
)
from agents.host.files import FileTree
from tests.unit.agents.proc import a_process, capabilities


@pytest.fixture
def files(tmp_path):
    capabilities(tmp_path, {"config": 1, "monitor": 2})
    capabilities(tmp_path, {"gpu0/gi3/access": 30, "gpu0/gi3/ci0/access": 31})
    capabilities(tmp_path, {"gpu0/gi31/access": 310, "gpu1/gi3/access": 165})
    a_process(tmp_path, 4_242, "nv-hostengine", "/dev/nvidia-caps/nvidia-cap31", "/dev/null")
    a_process(tmp_path, 77, "python", "/dev/nvidia0", "/dev/nvidiactl")
    a_process(tmp_path, 5, "bash", "/dev/pts/0")
    return FileTree(tmp_path)


def pids(found):
    return [holder.pid for holder in found.users]


def test_the_files_of_an_instance_are_its_own_capabilities_alone(files):
    names = {f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in (30, 31)}
    assert device_files(files, 0, 3) == names
    assert "/dev/nvidia0" in device_files(files, 0)
    assert "/dev/nvidia-caps/nvidia-cap165" not in device_files(files, 0)


def test_whoever_has_such_a_file_open_is_named(files):
    of_instance, of_gpu = device_files(files, 0, 3), device_files(files, 0)
    assert scan_device_users(files, lambda path: path in of_instance).users == (
        DeviceUser(4_242, "nv-hostengine"),
    )
    assert pids(scan_device_users(files, lambda path: path in of_gpu)) == [77, 4_242]
    assert pids(scan_device_users(files, is_gpu_file)) == [77, 4_242]
    assert pids(
        scan_device_users(files, is_gpu_file, is_candidate=lambda h: h.program in MONITORS)
    ) == [4_242]


def test_a_process_that_may_not_be_looked_into_is_told_apart(files, tmp_path):
    (tmp_path / "proc/9").mkdir()
    (tmp_path / "proc/9/comm").write_text("dcgmi\n", "utf-8")
    assert scan_device_users(files, is_gpu_file).hidden == (DeviceUser(9, "dcgmi"),)


def test_a_machine_without_proc_tells_nothing(tmp_path):
    assert scan_device_users(FileTree(tmp_path / "none"), is_gpu_file) is None


def test_a_holder_is_written_with_its_program_and_pid():
    assert str(DeviceUser(4_242, "nv-hostengine")) == "nv-hostengine (pid 4242)"
    assert str(DeviceUser(7)) == "a program (pid 7)"
