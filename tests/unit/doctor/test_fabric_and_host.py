"""NVSwitch and RDMA, disks, clock, shared memory, and DCGM."""

import pytest

from agents.admission.policy import NodePolicy
from agents.admission.shared_caches import SharedCache
from agents.admission.volume_roots import VolumeRoot
from agents.contract.documents import RuntimeKind
from agents.doctor.machine import DiskUsage, ProbeCommand, RealMachine
from agents.host.private_files import Access
from tests.unit.doctor.machines import (
    CLOSED_MODULE,
    FABRIC_MANAGER,
    MODULES,
    TIME,
    a_machine,
    finding,
    verdict,
)

SWITCH = "/proc/driver/nvidia-nvswitch/devices/0000:05:00.0"


def with_a_switch(root):
    machine = a_machine(root)
    machine.write(SWITCH, "")
    machine.says(ProbeCommand.FABRIC_MANAGER, FABRIC_MANAGER.format(version="580.95.05"))
    machine.says(ProbeCommand.FABRIC_ACTIVE, "active\n")
    return machine


def test_without_an_nvswitch_no_fabric_manager_is_needed(tmp_path):
    assert verdict(a_machine(tmp_path), "fabric.manager") == "ok"


def test_a_running_fabric_manager_of_the_drivers_version_is_well(tmp_path):
    assert verdict(with_a_switch(tmp_path), "fabric.manager") == "ok"


def test_a_fabric_manager_of_another_version_blocks_and_names_the_package(tmp_path):
    machine = with_a_switch(tmp_path)
    machine.says(ProbeCommand.FABRIC_MANAGER, FABRIC_MANAGER.format(version="580.82.07"))
    found = finding(machine, "fabric.manager")
    assert found.verdict == "block"
    assert "nvidia-fabricmanager-580" in found.mend


@pytest.mark.parametrize(
    ("state", "said"), [("inactive", "block"), ("failed", "block"), ("unknown", "unknown")]
)
def test_a_fabric_manager_that_does_not_run_blocks(tmp_path, state, said):
    machine = with_a_switch(tmp_path)
    machine.says(ProbeCommand.FABRIC_ACTIVE, f"{state}\n", code=3)
    assert verdict(machine, "fabric.manager") == said


def test_an_nvswitch_is_seen_on_the_bus_where_its_driver_is_not_loaded(tmp_path):
    machine = a_machine(tmp_path)
    at = "/sys/bus/pci/devices/0000:05:00.0"
    machine.write(f"{at}/class", "0x068000\n")
    machine.write(f"{at}/vendor", "0x8086\n")
    assert verdict(machine, "fabric.manager") == "ok"
    machine.write(f"{at}/vendor", "0x10de\n")
    assert verdict(machine, "fabric.manager") == "block"


def test_rdma_reaches_gpu_memory_by_peermem_or_by_the_open_module(tmp_path):
    machine = a_machine(tmp_path)
    machine.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    assert verdict(machine, "fabric.peermem") == "ok"
    machine.write("/proc/driver/nvidia/version", CLOSED_MODULE.format(version="580.95.05"))
    assert verdict(machine, "fabric.peermem") == "warn"
    machine.write("/proc/modules", MODULES + "nvidia_peermem 20480 0 - Live 0x0 (OE)\n")
    assert verdict(machine, "fabric.peermem") == "ok"


@pytest.mark.parametrize(
    ("total_gib", "free_gib", "said"),
    [(1000, 100, "ok"), (1000, 99, "block"), (20, 5, "ok"), (20, 4, "block")],
)
@pytest.mark.parametrize(
    ("code", "folder"),
    [("host.engine_disk", "/var/lib/docker"), ("host.agent_disk", "/var/lib/tessera")],
)
def test_a_nearly_full_disk_blocks(tmp_path, code, folder, total_gib, free_gib, said):
    machine = a_machine(tmp_path)
    machine.disks[folder] = DiskUsage(total_gib * 1024, free_gib * 1024)
    assert verdict(machine, code) == said


def test_the_disk_of_dockers_own_root_is_the_one_that_counts(tmp_path):
    machine = a_machine(tmp_path)
    machine.engine["DockerRootDir"] = "/data/docker"
    machine.disks["/data/docker"] = DiskUsage(1000, 0)
    assert "/data/docker" in finding(machine, "host.engine_disk").why


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (NodePolicy(), "ok"),
        (NodePolicy(cpu_reserve="0"), "warn"),
        (NodePolicy(memory_reserve="256MiB"), "warn"),
        (NodePolicy(cpu_reserve="1", memory_reserve="8GiB"), "ok"),
    ],
)
def test_a_node_that_keeps_nothing_for_its_system_is_warned_of(tmp_path, policy, said):
    machine = a_machine(tmp_path)
    machine.policy = policy
    found = finding(machine, "host.reserve")
    assert found.verdict == said and "CPUs and" in found.why


@pytest.mark.parametrize(("synchronised", "said"), [("yes", "ok"), ("no", "warn")])
def test_the_clock_is_asked_of_timedatectl(tmp_path, synchronised, said):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.TIME, TIME.format(synchronised=synchronised))
    assert verdict(machine, "host.clock") == said


def test_where_systemd_does_not_answer_the_clock_is_asked_of_chrony(tmp_path):
    machine = a_machine(tmp_path)
    no_systemd = "System has not been booted with systemd as init system (PID 1).\n"
    machine.says(ProbeCommand.TIME, no_systemd, code=1)
    assert verdict(machine, "host.clock") == "unknown"
    line = "C0A80101,192.168.1.1,3,1763712000.0,0.00001,0.0,0.0,1.2,0.0,0.0,0.01,0.0,64.0,"
    machine.says(ProbeCommand.CHRONY, line + "Normal\n")
    assert verdict(machine, "host.clock") == "ok"
    machine.says(ProbeCommand.CHRONY, line + "Not synchronised\n")
    assert verdict(machine, "host.clock") == "warn"


def test_shared_memory_of_a_plain_container_is_too_small(tmp_path):
    machine = a_machine(tmp_path)
    machine.disks["/dev/shm"] = DiskUsage(64, 64)
    assert verdict(machine, "host.shared_memory") == "warn"


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        ("nv-hostengine", "/dev/nvidia-caps/nvidia-cap2", "warn"),
        ("dcgm-exporter", "/dev/nvidia0", "warn"),
        ("dcgm-exporter", "/dev/null", "ok"),
        ("python3", "/dev/nvidia0", "ok"),
    ],
)
def test_dcgm_with_an_open_gpu_is_named_with_its_pid(tmp_path, name, target, said):
    machine = a_machine(tmp_path)
    machine.write("/proc/4711/comm", f"{name}\n")
    machine.points("/proc/4711/fd/7", target)
    found = finding(machine, "host.dcgm")
    assert str(found.verdict) == said
    assert ("4711" in found.why) == (said == "warn")


def test_dcgm_whose_files_are_hidden_is_unknown(tmp_path):
    machine = a_machine(tmp_path)
    machine.write("/proc/4711/comm", "nv-hostengine\n")
    found = finding(machine, "host.dcgm")
    assert found.verdict == "unknown"
    assert "nv-hostengine (4711) may have GPUs open" in found.why


@pytest.mark.parametrize(
    ("access", "mend"),
    [
        (Access(0, 0o755), "sudo chmod 711 /var/lib/tessera"),
        (Access(0, 0o740), "sudo chmod 711 /var/lib/tessera"),
        (Access(0, 0o702), "sudo chmod 711 /var/lib/tessera"),
        (Access(1000, 0o700), "sudo chown 0 /var/lib/tessera && sudo chmod 711 /var/lib/tessera"),
    ],
)
def test_an_agents_folder_that_others_can_read_blocks(tmp_path, access, mend):
    machine = a_machine(tmp_path)
    machine.accesses[machine.home] = access
    found = finding(machine, "host.agent_folder")
    assert (found.verdict, found.mend) == ("block", mend)


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o701])
def test_an_agents_folder_that_others_can_only_pass_through_is_well(tmp_path, mode):
    machine = a_machine(tmp_path)
    machine.accesses[machine.home] = Access(0, mode)
    assert verdict(machine, "host.agent_folder") == "ok"


def test_a_cache_that_jobs_cannot_read_is_a_warning_with_the_remedy(tmp_path):
    hub = tmp_path / "hub"
    hub.mkdir(mode=0o700)
    folder = VolumeRoot("models", str(hub), read_only=True)
    caches = (SharedCache(folder, "HF_HUB_CACHE", ("vision",)),)
    real = RealMachine(
        *(tmp_path, RuntimeKind.DOCKER, None),
        simulated=False,
        policy=NodePolicy(volumes=(VolumeRoot("data", "/nowhere"),), caches=caches),
    )
    machine = a_machine(tmp_path)
    assert verdict(machine, "host.shared_folders") == "ok"
    machine.folder_problems = real.folder_problems
    found = finding(machine, "host.shared_folders")
    assert found.verdict == "warn"
    assert f"jobs cannot read {hub}: chmod o+rx {hub}" in found.why
    assert "there is no folder /nowhere" in found.why
