"""The driver answers, is one whole, and knows its boards."""

import pytest

from agents.doctor.driver import first_driver
from agents.doctor.machine import ProbeCommand
from tests.unit.doctor.machines import (
    CLOSED_MODULE,
    MODULES,
    OPEN_MODULE,
    a_driver,
    a_gpu,
    a_machine,
    finding,
    verdict,
)


def test_a_driver_that_does_not_answer_blocks(tmp_path):
    machine = a_machine(tmp_path)
    machine.driver = None
    assert verdict(machine, "driver.answers") == "block"
    assert verdict(machine, "driver.version") == "unknown"


def test_a_driver_without_a_gpu_blocks(tmp_path):
    machine = a_machine(tmp_path)
    machine.driver = a_driver(gpus=())
    assert verdict(machine, "driver.answers") == "block"


@pytest.mark.parametrize(
    ("product", "first"),
    [
        ("NVIDIA H200", "550.90.07"),
        ("NVIDIA H20", "535.161.07"),
        ("NVIDIA H200 NVL", "550.90.07"),
        ("NVIDIA A100-SXM4-80GB", "450.80.02"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "575.51.03"),
        ("NVIDIA GB200", "570.133.20"),
        ("NVIDIA L40S", None),
    ],
)
def test_a_board_is_known_by_whole_words_of_its_name(product, first):
    assert first_driver(product) == first


@pytest.mark.parametrize(("version", "said"), [("550.54.15", "block"), ("550.90.07", "ok")])
def test_a_driver_older_than_its_board_blocks(tmp_path, version, said):
    assert verdict(a_machine(tmp_path, driver=version), "driver.version") == said


@pytest.mark.parametrize("words", [OPEN_MODULE, CLOSED_MODULE])
def test_a_library_of_another_driver_than_the_loaded_module_blocks(tmp_path, words):
    machine = a_machine(tmp_path)
    machine.write("/proc/driver/nvidia/version", words.format(version="580.95.05"))
    assert verdict(machine, "driver.library") == "ok"
    machine.write("/proc/driver/nvidia/version", words.format(version="580.82.07"))
    found = finding(machine, "driver.library")
    assert found.verdict == "block"
    assert "580.82.07" in found.why


def test_before_r570_a_process_sees_one_slice_only(tmp_path):
    machine = a_machine(tmp_path, driver="550.163.01")
    assert verdict(machine, "driver.cuda") == "warn"
    machine.driver = a_driver("550.163.01", gpus=[a_gpu("NVIDIA L40S", mig=None)])
    assert verdict(machine, "driver.cuda") == "ok"


def test_nouveau_blocks(tmp_path):
    machine = a_machine(tmp_path)
    assert verdict(machine, "driver.nouveau") == "ok"
    machine.write("/proc/modules", MODULES + "nouveau 2306048 0 - Live 0x0000000000000000\n")
    assert verdict(machine, "driver.nouveau") == "block"


UNATTENDED = """APT::Periodic "";
APT::Periodic::Update-Package-Lists "1";
APT::Periodic::Unattended-Upgrade "{on}";
"""
EXCLUDED = """Unattended-Upgrade::Package-Blacklist "";
Unattended-Upgrade::Package-Blacklist:: "{what}";
"""


@pytest.mark.parametrize("on", ["1", "7", "always"])
def test_unattended_upgrades_of_the_driver_are_a_warning_with_the_hold(tmp_path, on):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.APT, UNATTENDED.format(on=on))
    machine.says(ProbeCommand.APT_HOLDS, "docker-ce\n")
    found = finding(machine, "driver.upgrades")
    assert found.verdict == "warn"
    assert found.mend.startswith("sudo apt-mark hold ")


@pytest.mark.parametrize(
    ("apt", "holds"),
    [
        (UNATTENDED.format(on="0"), ""),
        (UNATTENDED.format(on=""), ""),
        (UNATTENDED.format(on="1"), "nvidia-driver-580\n"),
        (UNATTENDED.format(on="1") + EXCLUDED.format(what="^libnvidia"), ""),
    ],
)
def test_a_driver_that_no_upgrade_replaces_is_well(tmp_path, apt, holds):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.APT, apt)
    machine.says(ProbeCommand.APT_HOLDS, holds)
    assert verdict(machine, "driver.upgrades") == "ok"


def test_another_exclusion_does_not_protect_the_driver(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.APT, UNATTENDED.format(on="1") + EXCLUDED.format(what="docker"))
    assert verdict(machine, "driver.upgrades") == "warn"


def test_a_machine_without_apt_has_no_such_upgrades(tmp_path):
    assert verdict(a_machine(tmp_path), "driver.upgrades") == "ok"
