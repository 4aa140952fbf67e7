"""The toolkit's settings, CDI, and the Docker Engine."""

import pytest

from agents.contract.documents import RuntimeKind
from agents.doctor.machine import ProbeCommand
from tests.unit.doctor.machines import (
    CONFIG,
    GPU,
    SLICE,
    a_driver,
    a_gpu,
    a_machine,
    cdi,
    finding,
    verdict,
)

DEVICES = """Character devices:
  1 mem
195 nvidia
234 nvidia-caps
508 nvidia-uvm

Block devices:
259 blkext
"""
CAPABILITIES = "config 1\nmonitor 2\ngpu0/gi1/access 12\n"
CONFIG_FILE = "/etc/nvidia-container-runtime/config.toml"


def test_an_engine_that_does_not_answer_blocks_and_leaves_the_rest_unknown(tmp_path):
    machine = a_machine(tmp_path)
    machine.engine = None
    assert verdict(machine, "engine.answers") == "block"
    for code in ("engine.daemon_reload", "engine.live_restore", "toolkit.runtime"):
        assert verdict(machine, code) == "unknown"


def test_an_engine_without_live_restore_is_a_warning(tmp_path):
    machine = a_machine(tmp_path)
    assert verdict(machine, "engine.live_restore") == "ok"
    machine.engine["LiveRestoreEnabled"] = False
    assert verdict(machine, "engine.live_restore") == "warn"


def test_systemd_takes_a_gpu_that_has_no_link_in_dev_char(tmp_path):
    machine = a_machine(tmp_path)
    machine.write("/dev/nvidia1", "")
    found = finding(machine, "engine.daemon_reload")
    assert found.verdict == "warn"
    assert "for nvidia1." in found.why
    machine.points("/dev/char/195:1", "../nvidia1")
    assert verdict(machine, "engine.daemon_reload") == "ok"


def test_the_control_device_needs_its_link_too(tmp_path):
    machine = a_machine(tmp_path)
    machine.at("/dev/char/195:255").unlink()
    assert "nvidiactl" in finding(machine, "engine.daemon_reload").why


@pytest.mark.parametrize(
    ("device", "number"),
    [
        ("nvidia-uvm", "508:0"),
        ("nvidia-uvm-tools", "508:1"),
        ("nvidia-caps/nvidia-cap12", "234:12"),
    ],
)
def test_memory_and_slices_need_their_links_too(tmp_path, device, number):
    machine = a_machine(tmp_path)
    machine.write("/proc/devices", DEVICES)
    machine.write("/proc/driver/nvidia-caps/mig-minors", CAPABILITIES)
    machine.write(f"/dev/{device}", "")
    found = finding(machine, "engine.daemon_reload")
    assert (found.verdict, f"for {device}." in found.why) == ("warn", True)
    machine.points(f"/dev/char/{number}", f"../{device}")
    assert verdict(machine, "engine.daemon_reload") == "ok"


def test_capabilities_that_no_job_gets_need_no_link(tmp_path):
    machine = a_machine(tmp_path)
    machine.write("/proc/devices", DEVICES)
    machine.write("/proc/driver/nvidia-caps/mig-minors", CAPABILITIES)
    for number in (1, 2):
        machine.write(f"/dev/nvidia-caps/nvidia-cap{number}", "")
    assert verdict(machine, "engine.daemon_reload") == "ok"


def test_with_cgroupfs_a_reload_of_systemd_is_harmless(tmp_path):
    machine = a_machine(tmp_path)
    machine.write("/dev/nvidia1", "")
    machine.engine["CgroupDriver"] = "cgroupfs"
    assert verdict(machine, "engine.daemon_reload") == "ok"


def test_the_nvidia_runtime_should_be_there_but_not_be_the_default(tmp_path):
    machine = a_machine(tmp_path)
    assert verdict(machine, "toolkit.runtime") == "ok"
    assert verdict(machine, "toolkit.default_runtime") == "ok"
    machine.engine |= {"Runtimes": {"runc": {}}, "DefaultRuntime": "nvidia"}
    assert verdict(machine, "toolkit.runtime") == "warn"
    assert verdict(machine, "toolkit.default_runtime") == "warn"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (CONFIG.format(accept="false"), "ok"),
        (CONFIG.format(accept="true"), "warn"),
        ("", "warn"),
        ("accept-nvidia = \n", "block"),
    ],
)
def test_images_should_not_ask_for_gpus_by_themselves(tmp_path, config, said):
    machine = a_machine(tmp_path)
    machine.write(CONFIG_FILE, config)
    assert verdict(machine, "toolkit.envvar") == said


def test_without_a_settings_file_the_toolkits_default_counts(tmp_path):
    machine = a_machine(tmp_path)
    machine.at(CONFIG_FILE).unlink()
    assert verdict(machine, "toolkit.envvar") == "warn"


def test_a_refused_variable_without_cdi_would_refuse_every_job(tmp_path):
    machine = a_machine(tmp_path)
    del machine.outputs[ProbeCommand.CDI]
    found = finding(machine, "toolkit.envvar")
    assert found.verdict == "warn"
    assert "refuses every job" in found.why


def test_cdi_is_stale_where_a_slice_is_missing_or_gone(tmp_path):
    machine = a_machine(tmp_path)
    machine.driver = a_driver(gpus=[a_gpu(mig=True)], slices=[SLICE])
    machine.says(ProbeCommand.CDI, cdi("all", SLICE))
    assert verdict(machine, "toolkit.cdi") == "ok"
    machine.says(ProbeCommand.CDI, cdi("all", GPU, SLICE))
    assert verdict(machine, "toolkit.cdi") == "ok"
    gone = SLICE[:-1] + "f"
    machine.says(ProbeCommand.CDI, cdi("all", SLICE, gone))
    assert "0 devices are not in it, 1 are gone" in finding(machine, "toolkit.cdi").why
    machine.says(ProbeCommand.CDI, cdi("all", gone))
    assert "1 devices are not in it, 1 are gone" in finding(machine, "toolkit.cdi").why


def test_cdi_is_not_needed_where_it_lists_nothing(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.CDI, cdi())
    assert verdict(machine, "toolkit.cdi") == "ok"


def test_a_node_of_plain_processes_is_not_asked_about_containers(tmp_path):
    machine = a_machine(tmp_path, runc="1.1.0", toolkit="1.10.0")
    machine.engine = None
    machine.runtime = RuntimeKind.PROCESS
    for code in ("engine.answers", "runc.escapes", "toolkit.escapes", "host.engine_disk"):
        assert verdict(machine, code) == "ok"
