"""The examination inside a running agent: at its start, then again at most every ten minutes, in
a thread of its own, so that a slow program never holds up a round."""

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
    """`found` is the last examination. `machine` makes a fresh view for each one, and is None where
    nothing is examined; `now` counts seconds and never goes back. `accepted`: codes of checks whose
    block the node's owner takes upon himself."""

    machine: Callable[[], Machine] | None
    now: Callable[[], float] = time.monotonic
    accepted: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()
    _next: float = 0.0
    _running: threading.Thread | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """What a person should hear of."""
        return problem_sentences(self.findings)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Why no job should run here before it is mended."""
        return tuple(
            finding.sentence
            for finding in self.findings
            if finding.verdict is DoctorVerdict.BLOCK and finding.code not in self.accepted
        )

    def examine(self) -> None:
        """Look now, and wait for the end of it. An examination that breaks is logged, and what was
        known stays: it never keeps an agent from its work."""
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
        """Something changed that it asks about: the next look is due now."""
        self._next = self.now()

    def examine_when_due(self) -> threading.Thread | None:
        """Begin a look where the last is old enough and has ended; never wait. The thread, or None
        where none was begun."""
        with self._lock:
            running = self._running is not None and self._running.is_alive()
            if self.machine is None or running or self.now() < self._next:
                return None
            self._running = threading.Thread(target=self.examine, name="preflight", daemon=True)
            self._running.start()
            return self._running
