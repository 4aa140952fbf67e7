"""What a check says, and what a check is."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.doctor.machine import Machine


class DoctorVerdict(StrEnum):
    """`block`: no job of a stranger should run here. `unknown`: it could not be told."""

    OK = "ok"
    WARN = "warn"
    BLOCK = "block"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A verdict, one sentence why, and the command that mends it ("" where nothing is to do)."""

    verdict: DoctorVerdict
    why: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer with the code of its check and where the rule comes from."""

    code: str
    verdict: DoctorVerdict
    why: str
    mend: str
    source: str

    @property
    def sentence(self) -> str:
        """What the portal shows: verdict, reason and remedy in one line."""
        remedy = f" Mend: {self.mend}" if self.mend else ""
        return f"{self.verdict}: {self.why}{remedy}"


@dataclass(frozen=True, slots=True)
class Check:
    """One question to a machine. `driver`: it is about the real driver's own parts, and says
    nothing on a simulated node. `engine`: it is about containers, and says nothing on a node that
    runs plain processes. `verdicts` are those that it can give besides ok and unknown."""

    code: str
    question: str
    verdicts: tuple[DoctorVerdict, ...]
    source: str
    run: Callable[["Machine"], CheckResult]
    needs_real_driver: bool = False
    needs_engine: bool = False


def ok(why: str) -> CheckResult:
    return CheckResult(DoctorVerdict.OK, why)


def warn(why: str, mend: str) -> CheckResult:
    return CheckResult(DoctorVerdict.WARN, why, mend)


def block(why: str, mend: str) -> CheckResult:
    return CheckResult(DoctorVerdict.BLOCK, why, mend)


def unknown(why: str, mend: str = "") -> CheckResult:
    return CheckResult(DoctorVerdict.UNKNOWN, why, mend)
