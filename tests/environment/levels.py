"""Reports by level what ran and what was skipped, with the reason.

With `--levels-must-run`, a skipped test fails the run if the tools of its level are installed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.environment import debian

# Tests with these markers run on demand; skipping them is no gap.
ON_DEMAND = {"gpu", "on_demand"}


def skip_without(tool: debian.Tool) -> None:
    """Skip the calling test if the program is not installed."""
    if tool.path() is None:
        pytest.skip(f"{tool.program} is not installed: `make test` as root installs {tool.package}")


class Levels:
    """Outcomes and seconds by the first folder under tests/, added over all workers."""

    def __init__(self, *, must_run: bool) -> None:
        self.must_run = must_run
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)
        self.holes: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        level = level_of(report.fspath)
        self.seconds[level] += report.duration
        if report.when != "call" and report.outcome == "passed":
            return
        self.outcomes[level][report.outcome] += 1
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "no reason"
            self.reasons[level][reason.removeprefix("Skipped: ")] += 1
            if not ON_DEMAND & set(report.keywords):
                needs = debian.MARKERS & set(report.keywords)
                self.holes |= needs or {level}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("levels")
        for level, counts in sorted(self.outcomes.items()):
            said = ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))
            terminalreporter.line(f"{level:<12} {said} in {self.seconds[level]:.0f} s")
            for reason, times in self.reasons[level].most_common():
                terminalreporter.line(f"{'':<12} {times} skipped: {reason}")
        for level in self.broken():
            terminalreporter.line(f"{level}: what it needs is installed, so no test may be skipped")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.broken():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def broken(self) -> list[str]:
        """Levels that this machine can run, that should have run, and that skipped a test."""
        asked = self.holes & set(debian.LEVELS) if self.must_run else set()
        return [level for level in sorted(asked) if not debian.why_not(level)]


def level_of(path: str) -> str:
    """`tests/services/test_x.py` is of level `services`."""
    parts = Path(path).parts
    return parts[parts.index("tests") + 1] if "tests" in parts else "?"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--levels-must-run",
        action="store_true",
        help="fail if a level whose tools are installed here was skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    must_run = bool(config.getoption("--levels-must-run"))
    config.pluginmanager.register(Levels(must_run=must_run), "tessera-levels")
