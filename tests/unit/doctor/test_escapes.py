"""Known ways out of a container block a node; a distribution's patches are believed when told."""

import pytest

from agents.doctor.machine import ProbeCommand
from tests.unit.doctor.machines import (
    DEBIAN_CHANGELOG,
    DEBIAN_RUNC,
    OLD_TOOLKIT,
    UPSTREAM_RUNC,
    a_machine,
    finding,
    verdict,
)


@pytest.mark.parametrize(
    ("version", "said", "named"),
    [
        ("1.1.11", "block", "CVE-2024-21626"),
        ("1.1.12", "block", "CVE-2025-31133"),
        ("1.2.7", "block", "CVE-2025-52881"),
        ("1.2.8", "warn", "CVE-2026-41579"),
        ("1.3.2", "block", "CVE-2025-52565"),
        ("1.3.3", "warn", "CVE-2026-41579"),
        ("1.3.6", "ok", ""),
        ("1.4.0-rc.2", "block", "CVE-2025-31133"),
        ("1.4.0-rc.3", "warn", "CVE-2026-41579"),
        ("1.4.3", "ok", ""),
        ("1.5.0", "ok", ""),
        ("1.6.0", "ok", ""),
    ],
)
def test_runc_from_upstream_is_judged_by_its_series(tmp_path, version, said, named):
    found = finding(a_machine(tmp_path, runc=version), "runc.escapes")
    assert str(found.verdict) == said
    assert named in found.why
    assert bool(found.mend) == (said != "ok")


def test_debians_runc_is_a_warning_that_names_only_what_its_change_log_does_not(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.RUNC, DEBIAN_RUNC)
    machine.write("/usr/share/doc/runc/changelog.Debian.gz", DEBIAN_CHANGELOG)
    found = finding(machine, "runc.escapes")
    assert found.verdict == "warn"
    assert "1.1.5+ds1-1+deb12u1" in found.why
    assert "CVE-2025-31133" in found.why
    assert "CVE-2024-21626" not in found.why


def test_debians_runc_is_fine_once_its_change_log_names_every_hole(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.RUNC, DEBIAN_RUNC)
    names = "CVE-2025-31133 CVE-2025-52565 CVE-2025-52881 CVE-2026-41579"
    machine.write("/usr/share/doc/runc/changelog.Debian.gz", DEBIAN_CHANGELOG + names)
    assert verdict(machine, "runc.escapes") == "ok"


def test_a_distributions_runc_without_a_change_log_is_a_warning_of_all(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.RUNC, UPSTREAM_RUNC.format(version="1.1.7-0ubuntu1~22.04.2"))
    found = finding(machine, "runc.escapes")
    assert found.verdict == "warn"
    assert "without a changelog" in found.why
    assert "CVE-2024-21626" in found.why


def test_a_broken_change_log_is_no_change_log(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.RUNC, DEBIAN_RUNC)
    path = "/usr/share/doc/runc/changelog.Debian.gz"
    machine.write(path, DEBIAN_CHANGELOG)
    machine.at(path).write_bytes(machine.at(path).read_bytes()[:20])
    assert verdict(machine, "runc.escapes") == "warn"


def test_a_runc_that_says_nothing_is_unknown(tmp_path):
    machine = a_machine(tmp_path)
    machine.says(ProbeCommand.RUNC, "runc: command failed\n", code=1)
    assert verdict(machine, "runc.escapes") == "unknown"


@pytest.mark.parametrize(
    ("version", "said", "named"),
    [
        ("1.16.1", "block", "CVE-2024-0132"),
        ("1.16.2", "block", "CVE-2024-0134"),
        ("1.17.3", "block", "CVE-2025-23359"),
        ("1.17.7", "block", "CVE-2025-23266"),
        ("1.17.8-rc.1", "block", "CVE-2025-23266"),
        ("1.17.8", "warn", "hardening"),
        ("1.18.2", "warn", "hardening"),
        ("1.19.0", "ok", ""),
        ("1.20.0", "ok", ""),
    ],
)
def test_the_toolkit_is_judged_by_the_bulletins(tmp_path, version, said, named):
    found = finding(a_machine(tmp_path, toolkit=version), "toolkit.escapes")
    assert str(found.verdict) == said
    assert named in found.why


def test_a_closed_hole_is_not_named(tmp_path):
    why = finding(a_machine(tmp_path, toolkit="1.17.4"), "toolkit.escapes").why
    assert "CVE-2025-23266" in why
    assert "CVE-2025-23359" not in why


def test_a_toolkit_older_than_its_own_tool_is_still_read(tmp_path):
    machine = a_machine(tmp_path)
    del machine.outputs[ProbeCommand.TOOLKIT]
    machine.says(ProbeCommand.TOOLKIT_CLI, OLD_TOOLKIT)
    found = finding(machine, "toolkit.escapes")
    assert found.verdict == "block"
    assert "1.13.5" in found.why


def test_without_a_toolkit_a_node_of_containers_is_blocked(tmp_path):
    machine = a_machine(tmp_path)
    del machine.outputs[ProbeCommand.TOOLKIT]
    assert verdict(machine, "toolkit.escapes") == "block"
    assert verdict(machine, "toolkit.envvar") == "unknown"
