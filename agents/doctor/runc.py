"""Checks of runc, the program that isolates a container from its host."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.escapes import RUNC_ESCAPES, RUNC_RECOMMENDED, Escape, cve_names, open_escapes
from agents.doctor.machine import Machine, ProbeCommand
from agents.doctor.versions import Version

# Changelogs of Debian and Ubuntu packages.
CHANGELOGS = (
    "/usr/share/doc/runc/changelog.Debian.gz",
    "/usr/share/doc/containerd.io/changelog.Debian.gz",
)
UPGRADE = "sudo apt-get update && sudo apt-get install --only-upgrade runc containerd.io"


def runc_version(text: str) -> Version | None:
    """The version in `runc --version`. Debian shortens it in the first line and has it in full in
    the second: `runc version 1.1.5+ds1`, `commit: 1.1.5+ds1-1+deb12u1`."""
    first = re.search(r"^runc version (\S+)", text, re.MULTILINE)
    if first is None:
        return None
    commit = re.search(r"^commit: (\S+)", text, re.MULTILINE)
    whole = commit is not None and commit[1].startswith(first[1])
    return Version(commit[1] if commit is not None and whole else first[1])


def _escapes(machine: Machine) -> CheckResult:
    output = machine.output(ProbeCommand.RUNC)
    version = runc_version(output.text) if output is not None else None
    if version is None:
        return unknown("The version of runc is not known.", "runc --version")
    found = open_escapes(RUNC_ESCAPES, version)
    if version.is_distribution_build:
        return _vendors(machine, version, found)
    if any(not escape.is_low_severity for escape in found):
        return block(f"runc {version} has {_list(cve_names(found))}.", UPGRADE)
    if found:
        return warn(f"runc {version} has {_list(cve_names(found))}, with low severity.", UPGRADE)
    return ok(f"runc {version} has no known container escape.")


def _vendors(machine: Machine, version: Version, found: tuple[Escape, ...]) -> CheckResult:
    """A distribution fixes CVEs without a new upstream version; its changelog names them."""
    changelog = "\n".join(filter(None, map(machine.text, CHANGELOGS)))
    still = [name for name in cve_names(found) if name not in changelog]
    if not still:
        return ok(f"runc {version} is a distribution's build with every known CVE fixed.")
    evidence = (
        "its changelog does not name" if changelog else "without a changelog to confirm fixes of"
    )
    why = f"runc {version} is a distribution's build, {evidence} {_list(still)}."
    return warn(why, f"{UPGRADE}  # or runc {RUNC_RECOMMENDED} or newer from upstream")


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)


CHECKS = (
    Check(
        "runc.escapes",
        "Does runc have a known container escape?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "opencontainers/runc security advisories and CHANGELOG; the package's Debian changelog",
        _escapes,
        needs_engine=True,
    ),
)
