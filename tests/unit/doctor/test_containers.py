"""The toolkit's settings, CDI, and the Docker Engine."""

from dataclasses import replace

import pytest

from agents.admission.policy import NodePolicy
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


def test_an_engine_that_the_agent_cannot_use_is_refused_in_the_agents_words(tmp_path):
    machine = a_machine(tmp_path)
    assert "by API 1.44, of its 1.24 to 1.51" in finding(machine, "engine.answers").why
    machine.engine, machine.engine_failure = None, "Docker Engine 18.09 is too old"
    assert "Docker Engine 18.09 is too old" in finding(machine, "engine.answers").why


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


def test_the_nvidia_runtime_should_not_be_the_default(tmp_path):
    machine = a_machine(tmp_path)
    assert verdict(machine, "toolkit.default_runtime") == "ok"
    machine.engine["DefaultRuntime"] = "nvidia"
    assert verdict(machine, "toolkit.default_runtime") == "warn"


@pytest.mark.parametrize(
    ("folders", "hook", "said"),
    [
        (["/etc/cdi"], True, "ok"),
        ([], True, "warn"),
        ([], False, "block"),
        (["/x"], False, "block"),
    ],
)
def test_without_the_nvidia_runtime_another_way_must_be_there(tmp_path, folders, hook, said):
    machine = a_machine(tmp_path)
    assert verdict(machine, "toolkit.runtime") == "ok"
    machine.engine |= {"Runtimes": {"runc": {}}, "CDISpecDirs": folders}
    if not hook:
        machine.at("/usr/bin/nvidia-container-runtime-hook").unlink()
    assert verdict(machine, "toolkit.runtime") == said
    assert verdict(machine, "toolkit.injection") == ("block" if said == "block" else "ok")


def test_a_machine_without_a_gpu_is_not_blocked_for_want_of_a_runtime(tmp_path):
    machine = a_machine(tmp_path)
    machine.at("/usr/bin/nvidia-container-runtime-hook").unlink()
    machine.engine |= {"Runtimes": {}, "CDISpecDirs": []}
    assert verdict(machine, "toolkit.runtime") == "block"
    machine.driver = a_driver(gpus=())
    assert verdict(machine, "toolkit.runtime") == "warn"


def test_the_way_is_shown_with_its_reason_and_the_toolkits_mode(tmp_path):
    machine = a_machine(tmp_path)
    why = finding(machine, "toolkit.injection").why
    assert "by runtime: the engine has the runtime nvidia" in why and "mode is auto" in why
    machine.policy = NodePolicy(device_injection="cdi")
    assert "by cdi: the policy's device_injection" in finding(machine, "toolkit.injection").why


@pytest.mark.parametrize(
    ("policy", "config", "words"),
    [
        (
            "nvidia",
            CONFIG.format(accept="true").replace("auto", "cdi"),
            "mode cdi refuses its hook",
        ),
        ("nvidia", CONFIG.format(accept="false"), "is false in"),
        ("runtime", CONFIG.format(accept="false"), "is false in"),
    ],
)
def test_a_way_that_the_toolkit_refuses_blocks(tmp_path, policy, config, words):
    machine = a_machine(tmp_path)
    machine.write(CONFIG_FILE, config)
    assert verdict(machine, "toolkit.injection") == "ok", "another way is chosen"
    machine.policy = NodePolicy(device_injection=policy)
    found = finding(machine, "toolkit.injection")
    assert found.verdict == "block" and words in found.why


def test_a_cdi_file_that_comes_before_the_agents_is_a_warning_where_files_count(tmp_path):
    machine = a_machine(tmp_path)
    machine.write("/var/run/cdi/nvidia.yaml", "")
    assert verdict(machine, "toolkit.injection") == "ok"
    machine.policy = NodePolicy(device_injection="cdi")
    found = finding(machine, "toolkit.injection")
    assert found.verdict == "warn" and "nvidia-cdi-refresh" in found.mend


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (CONFIG.format(accept="false"), "ok"),
        (CONFIG.format(accept="true"), "ok"),
        ("", "ok"),
        ("accept-nvidia = \n", "block"),
    ],
)
def test_the_variable_is_the_agents_where_gpus_are_requested_by_it(tmp_path, config, said):
    machine = a_machine(tmp_path)
    machine.write(CONFIG_FILE, config)
    assert verdict(machine, "toolkit.envvar") == said


@pytest.mark.parametrize(
    ("config", "said"), [(CONFIG.format(accept="false"), "ok"), ("", "warn"), (None, "warn")]
)
def test_with_cdi_images_should_not_request_gpus_by_themselves(tmp_path, config, said):
    machine = a_machine(tmp_path)
    machine.policy = NodePolicy(device_injection="cdi")
    if config is None:
        machine.at(CONFIG_FILE).unlink()
    else:
        machine.write(CONFIG_FILE, config)
    assert verdict(machine, "toolkit.envvar") == said


def test_a_gpu_that_sleeps_between_jobs_is_a_warning(tmp_path):
    machine = a_machine(tmp_path)
    assert verdict(machine, "driver.persistence") == "ok"
    machine.driver = replace(a_driver(), not_persistent=(0, 3))
    found = finding(machine, "driver.persistence")
    assert found.verdict == "warn" and "GPU 0, 3" in found.why


def test_cdi_is_stale_where_a_slice_is_missing_or_gone(tmp_path):
    machine = a_machine(tmp_path)
    machine.policy = NodePolicy(device_injection="cdi")
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


def test_a_stale_cdi_file_is_no_matter_where_none_is_used(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.CDI, cdi("all", SLICE))
    assert verdict(machine, "toolkit.cdi") == "ok"
    machine.policy = NodePolicy(device_injection="nvidia")
    assert verdict(machine, "toolkit.cdi") == "warn"


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
