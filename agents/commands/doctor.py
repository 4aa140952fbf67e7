"""`agents doctor`: checks this machine and shows how to fix problems. Changes nothing.

The exit status is 1 if a check blocks, else 0.
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
            _existing(options.var), runtime, nvml, simulated=simulated is not None
        )
        findings = examine(machine)
    finally:
        if nvml is not None:
            nvml.close()
    sys.stdout.write(as_json(findings) if options.json else as_text(findings))
    return int(worst_verdict(findings) is DoctorVerdict.BLOCK)


def as_json(findings: tuple[Finding, ...]) -> str:
    report = {
        "verdict": worst_verdict(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(report, indent=2) + "\n"


def as_text(findings: tuple[Finding, ...]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict:<8} {finding.code:<24} {finding.why}")
        if finding.mend:
            lines.append(f"{'':<33} fix: {finding.mend}")
    return "\n".join([*lines, f"verdict: {worst_verdict(findings)}", ""])


def _nvml() -> Nvml | None:
    try:
        return Nvml()
    except NvmlFailure:
        return None


def _existing(folder: Path) -> Path:
    """The folder or its nearest existing parent: the folder is created at the first start."""
    folder = folder.absolute()
    return next(at for at in (folder, *folder.parents) if at.exists())
