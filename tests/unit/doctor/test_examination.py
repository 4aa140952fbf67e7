"""An examination as a whole, on paper, on this machine, and inside an agent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.commands.doctor import as_json, as_text
from agents.contract.documents import NodeFacts, RuntimeKind
from agents.doctor.checks import DoctorVerdict
from agents.doctor.examination import (
    CHECKS,
    checks_table,
    examine,
    problem_sentences,
    worst_verdict,
)
from agents.doctor.machine import CommandOutput, ProbeCommand, RealMachine
from agents.doctor.preflight import INTERVAL_SECONDS, Preflight
from agents.hardware import Hardware
from agents.host.files import FileTree
from agents.loop.observe import observed_document
from agents.nvml.session import Nvml
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from tests.support.memory_runtime import MemoryRuntime
from tests.unit.doctor.machines import DiskUsage, a_machine, verdict

DOCS = Path(__file__).parents[3] / "docs" / "doctor.md"


class Clock:
    seconds = 1_000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def nvml(tmp_path):
    store = Store(tmp_path / "driver.json")
    store.create(new_node(board="H200-141GB", gpus=2, seed=7, latency=False))
    install(store.path)
    session = Nvml()
    yield session
    session.close()


def test_a_well_machine_gets_a_clean_bill(tmp_path):
    found = examine(a_machine(tmp_path))
    assert {f.code: f.why for f in found if f.verdict is not DoctorVerdict.OK} == {}
    assert worst_verdict(found) is DoctorVerdict.OK
    assert problem_sentences(found) == ()


def test_every_check_gives_one_finding_with_its_source(tmp_path):
    found = examine(a_machine(tmp_path))
    assert [f.code for f in found] == [check.code for check in CHECKS]
    assert len({check.code for check in CHECKS}) == len(CHECKS)
    assert all(f.source and f.why.endswith(".") for f in found)


def test_an_empty_machine_never_breaks_a_check_and_what_warns_says_how_to_mend(tmp_path):
    machine = a_machine(tmp_path / "none")
    machine.root, machine.outputs, machine.driver, machine.engine = tmp_path / "x", {}, None, None
    machine.disk = lambda path: None
    for found in examine(machine):
        assert "could not read" not in found.why
        assert found.mend or found.verdict in (DoctorVerdict.OK, DoctorVerdict.UNKNOWN)


@pytest.mark.parametrize("noise", ["", "\n", "\x00\xff", "version is", "Error: not permitted\n"])
def test_programs_that_babble_make_no_check_fail(tmp_path, noise):
    machine = a_machine(tmp_path)
    machine.write("/proc/driver/nvidia-nvswitch/devices/0000:05:00.0", "")
    for command in ProbeCommand:
        machine.says(command, noise, code=1)
    assert not [f for f in examine(machine) if "could not read" in f.why]


def test_what_blocks_is_told_before_what_warns(tmp_path):
    machine = a_machine(tmp_path, toolkit="1.17.7")
    machine.engine["LiveRestoreEnabled"] = False
    blocking, warning = problem_sentences(examine(machine))
    assert blocking.startswith("block: Container toolkit 1.17.7 has CVE-2025-23266")
    assert "Mend: sudo apt-get" in blocking
    assert warning.startswith("warn: A restart of the Docker Engine")


def test_a_simulated_driver_is_not_held_against_the_host(tmp_path):
    machine = a_machine(tmp_path, toolkit="1.10.0", driver="400.1")
    machine.simulated = True
    assert verdict(machine, "toolkit.escapes") == "ok"
    assert verdict(machine, "driver.version") == "ok"


def test_findings_are_told_for_people_and_for_programs(tmp_path):
    found = examine(a_machine(tmp_path, toolkit="1.16.1"))
    told = json.loads(as_json(found))
    assert told["verdict"] == "block"
    assert {"code", "verdict", "why", "mend", "source"} == set(told["findings"][0])
    text = as_text(found)
    assert "block    toolkit.escapes" in text
    assert "fix: sudo apt-get update" in text
    assert text.endswith("verdict: block\n")


def test_the_page_has_the_table_of_the_checks_as_they_are():
    assert checks_table() in DOCS.read_text("utf-8")


def test_files_that_are_not_there_or_not_files_are_none(tmp_path):
    files = FileTree(tmp_path)
    assert files.text("/nothing") is None
    assert files.text("/") is None
    assert files.names("/nothing") is None
    assert files.link("/") is None


def test_programs_run_without_a_shell_and_without_our_environment(tmp_path, monkeypatch):
    program = tmp_path / "runc"
    program.write_text('#!/bin/sh\necho "runc version 1.3.6 $1 [$TESSERA_SECRET]"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("TESSERA_SECRET", "x")
    monkeypatch.setattr("agents.doctor.machine.SEARCH_PATH", f"{tmp_path}:/usr/bin:/bin")
    machine = RealMachine(tmp_path, RuntimeKind.DOCKER, None, simulated=False)
    assert machine.output(ProbeCommand.RUNC) == CommandOutput(
        3, "runc version 1.3.6 --version []\n"
    )
    assert machine.output(ProbeCommand.FABRIC_MANAGER) is None


def test_the_real_machine_reads_nvml_through_its_one_door(tmp_path, nvml):
    machine = RealMachine(tmp_path, RuntimeKind.PROCESS, nvml, simulated=True)
    assert [gpu.index for gpu in machine.driver.gpus] == [0, 1]
    assert verdict(machine, "driver.answers") == "ok"


def test_the_entry_ends_with_0_where_nothing_blocks_on_a_simulated_node(tmp_path, nvml):
    environment = os.environ | {"TESSERA_SIMULATED_DRIVER": str(tmp_path / "driver.json")}
    command = [sys.executable, "-m", "agents", "doctor", "--json", "--runtime", "process"]
    done = subprocess.run(
        [*command, "--var", str(tmp_path / "not" / "there")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert done.returncode == int(told["verdict"] == "block")
    verdicts = {finding["code"]: finding["verdict"] for finding in told["findings"]}
    assert verdicts["driver.answers"] == "ok"
    assert verdicts["host.agent_disk"] != "unknown"


def test_the_portal_hears_of_what_blocks_in_the_facts_of_the_node(tmp_path, nvml):
    paper = a_machine(tmp_path, toolkit="1.17.7")
    hardware = Hardware(
        nvml, MemoryRuntime(dict), tmp_path, simulated=True, preflight=Preflight(lambda: paper)
    )
    (told,) = observed_document("n-1", hardware, (), {}, {}).facts.problems
    assert told.startswith("block: Container toolkit 1.17.7")


def test_a_simulated_node_is_not_examined_unasked(tmp_path, nvml):
    hardware = Hardware(nvml, MemoryRuntime(dict), tmp_path, simulated=True)
    assert observed_document("n-1", hardware, (), {}, {}).facts.problems == NodeFacts().problems
    assert hardware.preflight.examine_when_due() is None


def test_an_agent_looks_again_after_ten_minutes_and_not_before(tmp_path):
    paper, clock = a_machine(tmp_path), Clock()
    preflight = Preflight(lambda: paper, clock)
    preflight.examine()
    paper.disks[paper.home] = DiskUsage(1000, 0)
    clock.seconds += INTERVAL_SECONDS - 1
    assert preflight.examine_when_due() is None
    assert preflight.problems == ()
    clock.seconds += 1
    preflight.examine_when_due().join()
    assert preflight.problems[0].startswith("block: The agent's folder")
    assert preflight.examine_when_due() is None


def test_an_examination_that_breaks_keeps_what_was_known(tmp_path):
    paper, clock = a_machine(tmp_path, toolkit="1.16.1"), Clock()
    machines = iter([paper])
    preflight = Preflight(lambda: next(machines), clock)
    preflight.examine()
    known = preflight.problems
    clock.seconds += INTERVAL_SECONDS
    preflight.examine_when_due().join()
    assert preflight.problems == known != ()


def test_a_block_that_the_nodes_owner_accepts_is_told_and_does_not_block(tmp_path):
    paper = a_machine(tmp_path, toolkit="1.17.7")
    strict = Preflight(lambda: paper)
    strict.examine()
    (blocking,) = (f.code for f in strict.findings if f.verdict == "block")
    assert len(strict.blocks) == 1
    taken = Preflight(lambda: paper, accepted=frozenset({blocking}))
    taken.examine()
    assert taken.blocks == ()
    assert taken.problems == strict.problems
