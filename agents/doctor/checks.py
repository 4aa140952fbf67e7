"""Checks, their results and findings."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.doctor.machine import Machine


class DoctorVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    # No untrusted job should run on this machine.
    BLOCK = "block"
    # The machine does not show enough.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check."""

    verdict: DoctorVerdict
    # The reason, as one sentence.
    why: str
    # The command that fixes it; empty if there is nothing to do.
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A result with the code of its check and the source of the rule."""

    code: str
    verdict: DoctorVerdict
    why: str
    mend: str
    source: str

    @property
    def sentence(self) -> str:
        """Verdict, reason and fix in one line, for the portal."""
        remedy = f" Mend: {self.mend}" if self.mend else ""
        return f"{self.verdict}: {self.why}{remedy}"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a machine."""

    code: str
    question: str
    # The possible verdicts besides ok and unknown.
    verdicts: tuple[DoctorVerdict, ...]
    source: str
    run: Callable[["Machine"], CheckResult]
    # Skipped on a simulated node.
    needs_real_driver: bool = False
    # Skipped on a node that runs plain processes.
    needs_engine: bool = False


def ok(why: str) -> CheckResult:
    return CheckResult(DoctorVerdict.OK, why)


def warn(why: str, mend: str) -> CheckResult:
    return CheckResult(DoctorVerdict.WARN, why, mend)


def block(why: str, mend: str) -> CheckResult:
    return CheckResult(DoctorVerdict.BLOCK, why, mend)


def unknown(why: str, mend: str = "") -> CheckResult:
    return CheckResult(DoctorVerdict.UNKNOWN, why, mend)
