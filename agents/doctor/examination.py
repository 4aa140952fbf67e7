"""Runs all checks, in the order in which an administrator would fix them."""

from agents.contract.documents import RuntimeKind
from agents.doctor import driver, engine, fabric, gangs, host, portal, runc, toolkit
from agents.doctor.checks import Check, CheckResult, DoctorVerdict, Finding, ok, unknown
from agents.doctor.machine import Machine

CHECKS: tuple[Check, ...] = (
    *driver.CHECKS,
    *engine.CHECKS,
    *runc.CHECKS,
    *toolkit.CHECKS,
    *fabric.CHECKS,
    *host.CHECKS,
    *gangs.CHECKS,
    *portal.CHECKS,
)


def examine(machine: Machine) -> tuple[Finding, ...]:
    """One finding for every check. A check that raises becomes an `unknown` finding."""
    return tuple(_finding(check, machine) for check in CHECKS)


def worst_verdict(findings: tuple[Finding, ...]) -> DoctorVerdict:
    """`block` before `warn` before `unknown` before `ok`."""
    order = (DoctorVerdict.BLOCK, DoctorVerdict.WARN, DoctorVerdict.UNKNOWN)
    found = {finding.verdict for finding in findings}
    return next((verdict for verdict in order if verdict in found), DoctorVerdict.OK)


def problem_sentences(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """The sentences of blocks, then those of warnings."""
    shown = (DoctorVerdict.BLOCK, DoctorVerdict.WARN)
    return tuple(f.sentence for verdict in shown for f in findings if f.verdict is verdict)


def checks_table() -> str:
    """The checks as a Markdown table, for `docs/doctor.md`."""
    head = "| Check | Question | Verdicts | Source |\n|---|---|---|---|\n"
    return head + "".join(
        f"| `{c.code}` | {c.question} | {', '.join(c.verdicts)} | {c.source} |\n" for c in CHECKS
    )


def _finding(check: Check, machine: Machine) -> Finding:
    answer = _answer(check, machine)
    return Finding(check.code, answer.verdict, answer.why, answer.mend, check.source)


def _answer(check: Check, machine: Machine) -> CheckResult:
    if check.needs_real_driver and machine.simulated:
        return ok("The driver of this node is simulated.")
    if check.needs_engine and machine.runtime is RuntimeKind.PROCESS:
        return ok("This node runs plain processes instead of containers.")
    try:
        return check.run(machine)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return unknown(f"This check could not read what it found: {error}")
