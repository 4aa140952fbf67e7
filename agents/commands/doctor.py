"""`agents doctor`: examine this machine and say what to mend. Changes nothing.

Ends with 0 where nothing blocks, with 1 where something does.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from agents.contract.documents import RuntimeKind
from agents.doctor.checks import DoctorVerdict, Finding
from agents.doctor.examination import examine, worst_verdict
from agents.doctor.machine import RealMachine
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.settings import simulated_driver
from agents.simdriver.install import install


def main(options: argparse.Namespace) -> int:
    simulated = simulated_driver()
    if simulated is not None:
        install(simulated)
    nvml = _nvml()
    try:
        runtime = RuntimeKind(options.runtime)
        machine = RealMachine(
            _standing(options.var), runtime, nvml, simulated=simulated is not None
        )
        findings = examine(machine)
    finally:
        if nvml is not None:
            nvml.close()
    sys.stdout.write(as_json(findings) if options.json else as_text(findings))
    return int(worst_verdict(findings) is DoctorVerdict.BLOCK)


def as_json(findings: tuple[Finding, ...]) -> str:
    whole = {
        "verdict": worst_verdict(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(whole, indent=2) + "\n"


def as_text(findings: tuple[Finding, ...]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict:<8} {finding.code:<24} {finding.why}")
        if finding.mend:
            lines.append(f"{'':<33} mend: {finding.mend}")
    return "\n".join([*lines, f"worst: {worst_verdict(findings)}", ""])


def _nvml() -> Nvml | None:
    try:
        return Nvml()
    except NvmlFailure:
        return None


def _standing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists: before the first start there is none."""
    folder = folder.absolute()
    return next(at for at in (folder, *folder.parents) if at.exists())
