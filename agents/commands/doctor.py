"""`agents doctor`: checks this machine and shows how to fix problems. Changes nothing, except that
`--smoke` runs a few containers and removes them.

The exit status is 1 if a check blocks, or if a container shows that jobs get no GPU; else 0.
"""

import argparse
import json
import sys
from dataclasses import asdict

from agents.admission.policy import PolicyError, read_policy
from agents.contract.documents import RuntimeKind
from agents.doctor.checks import DoctorVerdict, Finding
from agents.doctor.examination import examine, worst_verdict
from agents.doctor.machine import RealMachine
from agents.doctor.smoke import SmokeResult, SmokeVerdict, has_failed, smoke_test
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.settings import portal_route, simulated_driver
from agents.simdriver.install import install


def main(options: argparse.Namespace) -> int:
    try:
        policy = read_policy(options.policy)
    except PolicyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    route, simulated = portal_route(options), simulated_driver()
    if simulated is not None:
        install(simulated)
    nvml = _nvml()
    try:
        runtime = RuntimeKind(options.runtime)
        machine = RealMachine(
            options.var,
            runtime,
            nvml,
            simulated=simulated is not None,
            policy=policy,
            route=route,
            address=options.address,
        )
        findings = examine(machine)
        smoke: tuple[SmokeResult, ...] = ()
        if options.smoke:
            measures = options.smoke_bandwidth
            smoke = smoke_test(machine, options.smoke_image, measures=measures)
    finally:
        if nvml is not None:
            nvml.close()
    if options.json:
        sys.stdout.write(as_json(findings, smoke))
    else:
        sys.stdout.write(as_text(findings) + smoke_text(smoke, simulated=machine.simulated))
    return int(worst_verdict(findings) is DoctorVerdict.BLOCK or has_failed(smoke))


def as_json(findings: tuple[Finding, ...], smoke: tuple[SmokeResult, ...] = ()) -> str:
    report = {
        "verdict": worst_verdict(findings),
        "findings": [asdict(finding) for finding in findings],
        "smoke": [asdict(result) for result in smoke],
    }
    return json.dumps(report, indent=2) + "\n"


def as_text(findings: tuple[Finding, ...]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict:<8} {finding.code:<24} {finding.why}")
        if finding.mend:
            lines.append(f"{'':<33} fix: {finding.mend}")
    return "\n".join([*lines, f"verdict: {worst_verdict(findings)}", ""])


def smoke_text(results: tuple[SmokeResult, ...], *, simulated: bool) -> str:
    """A paragraph for each container; empty if none was run."""
    if not results:
        return ""
    lines = ["", "containers, run like those of jobs:"]
    for result in results:
        way = f"{result.path}, {result.device}" if result.path else result.device
        chosen = " (used for jobs)" if result.is_chosen and result.path else ""
        lines.append(f"{result.verdict:<8} {way:<24} {result.why}{chosen}")
        lines += [f"{'':<33} {line}" for line in result.saw]
    if simulated:
        lines.append("The driver is simulated: nothing here shows that a GPU reaches a container.")
    elif untried := [r for r in results if r.verdict is SmokeVerdict.NOT_TRIED]:
        lines.append(f"{len(untried)} of {len(results)} were not tried, for the reasons above.")
    return "\n".join([*lines, ""])


def _nvml() -> Nvml | None:
    try:
        return Nvml()
    except NvmlFailure:
        return None
