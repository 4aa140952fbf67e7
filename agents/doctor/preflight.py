"""The examination inside a running agent: at its start and every ten minutes, in a separate thread
so that a slow program never delays a round."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.doctor.checks import DoctorVerdict, Finding
from agents.doctor.examination import examine, problem_sentences
from agents.doctor.machine import Machine

INTERVAL_SECONDS = 600.0

log = logging.getLogger("agents.doctor")


@dataclass
class Preflight:
    # Makes a fresh view for each examination; None if this node is not examined.
    machine: Callable[[], Machine] | None
    now: Callable[[], float] = time.monotonic
    # Checks whose block the node's owner accepts.
    accepted: frozenset[str] = frozenset()
    # Of the last examination.
    findings: tuple[Finding, ...] = ()
    _next: float = 0.0
    _running: threading.Thread | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """Blocks and warnings, one sentence each."""
        return problem_sentences(self.findings)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Why the node takes no new work, without accepted checks."""
        return tuple(
            finding.sentence
            for finding in self.findings
            if finding.verdict is DoctorVerdict.BLOCK and finding.code not in self.accepted
        )

    def examine(self) -> None:
        """Examine now and wait for the end. A failed examination is logged and keeps the previous
        findings; it never stops the agent."""
        if self.machine is None:
            return
        self._next = self.now() + INTERVAL_SECONDS
        try:
            found = examine(self.machine())
        except Exception:
            log.exception("preflight_failed")
            return
        before, self.findings = self.problems, found
        for sentence in self.problems:
            if sentence not in before:
                log.warning("preflight", extra={"why": sentence})

    def make_due(self) -> None:
        """Make the next examination due now, after a relevant change."""
        self._next = self.now()

    def examine_when_due(self) -> threading.Thread | None:
        """Start an examination if the last one is old enough and has ended. Does not wait.
        Returns its thread, or None if none was started."""
        with self._lock:
            running = self._running is not None and self._running.is_alive()
            if self.machine is None or running or self.now() < self._next:
                return None
            self._running = threading.Thread(target=self.examine, name="preflight", daemon=True)
            self._running.start()
            return self._running
