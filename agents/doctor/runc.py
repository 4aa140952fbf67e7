"""runc: the version that stands between a container and its host."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.escapes import RUNC_ESCAPES, RUNC_RECOMMENDED, Escape, cve_names, open_escapes
from agents.doctor.machine import Machine, ProbeCommand
from agents.doctor.versions import Version

# Where a Debian or Ubuntu package tells what its maintainers put in.
CHANGELOGS = (
    "/usr/share/doc/runc/changelog.Debian.gz",
    "/usr/share/doc/containerd.io/changelog.Debian.gz",
)
UPGRADE = "sudo apt-get update && sudo apt-get install --only-upgrade runc containerd.io"


def runc_version(text: str) -> Version | None:
    """The version in `runc --version`. Debian shortens it in the first line and tells all of it
    in the second: `runc version 1.1.5+ds1`, `commit: 1.1.5+ds1-1+deb12u1`."""
    first = re.search(r"^runc version (\S+)", text, re.MULTILINE)
    if first is None:
        return None
    commit = re.search(r"^commit: (\S+)", text, re.MULTILINE)
    whole = commit is not None and commit[1].startswith(first[1])
    return Version(commit[1] if commit is not None and whole else first[1])


def _escapes(machine: Machine) -> CheckResult:
    said = machine.output(ProbeCommand.RUNC)
    version = runc_version(said.text) if said is not None else None
    if version is None:
        return unknown("runc does not tell its version.", "runc --version")
    found = open_escapes(RUNC_ESCAPES, version)
    if version.is_distribution_build:
        return _vendors(machine, version, found)
    if any(not escape.is_low_severity for escape in found):
        return block(f"runc {version} has {_list(cve_names(found))}.", UPGRADE)
    if found:
        return warn(f"runc {version} has {_list(cve_names(found))}, of low weight.", UPGRADE)
    return ok(f"runc {version} has no known way out of a container.")


def _vendors(machine: Machine, version: Version, found: tuple[Escape, ...]) -> CheckResult:
    """A distribution closes holes without a new upstream number: its change log tells which."""
    told = "\n".join(filter(None, map(machine.text, CHANGELOGS)))
    still = [name for name in cve_names(found) if name not in told]
    if not still:
        return ok(f"runc {version} is a distribution's build with every known hole closed.")
    evidence = "its change log does not name" if told else "without a change log to tell of"
    why = f"runc {version} is a distribution's build, {evidence} {_list(still)}."
    return warn(why, f"{UPGRADE}  # or runc {RUNC_RECOMMENDED} or newer from upstream")


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)


CHECKS = (
    Check(
        "runc.escapes",
        "Does runc have a known way out of a container?",
        (DoctorVerdict.WARN, DoctorVerdict.BLOCK),
        "opencontainers/runc security advisories and CHANGELOG; the package's Debian change log",
        _escapes,
        needs_engine=True,
    ),
)
