"""The invariants that a random walk found violated."""

from collections import Counter

from agents.drill.clock import Clock

SHOWN = 10


class Violations:
    """How often each invariant, by its number, was violated; the first few as sentences."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[str] = []
        self._clock = clock

    def add(self, invariant: str, sentence: str) -> None:
        self.counts[invariant] += 1
        if len(self.first) < SHOWN:
            self.first.append(f"{invariant} at {self._clock.now:.0f} s: {sentence}")
