"""The right to run jobs, which ends by itself unless the portal renews it."""

from agents.state.journal import Journal

FACT = "lease"
# An older time in the journal is safe: a new agent then believes in a shorter lease.
WRITE_SECONDS = 5.0


class Lease:
    """Ends at a time in seconds since boot. It outlives the agent, not the boot: otherwise an agent
    that is restarted out of contact would run jobs that the portal has tried elsewhere."""

    def __init__(self, journal: Journal, boot_id: str) -> None:
        self._journal, self._boot_id = journal, boot_id
        self._until = self._written = self._read()

    def renew(self, until: float) -> None:
        """It never becomes shorter: the response to an earlier call may come last."""
        self._until = until if self._until is None else max(until, self._until)
        if self._written is None or self._until > self._written + WRITE_SECONDS:
            self._journal.store_fact(FACT, f"{self._boot_id} {self._until!r}")
            self._written = self._until

    def is_over(self, now: float) -> bool:
        """False if there was none since boot: nothing can run then."""
        return self._until is not None and now > self._until

    def is_valid(self, now: float) -> bool:
        return self._until is not None and now <= self._until

    def _read(self) -> float | None:
        boot_id, _, until = self._journal.fact(FACT).rpartition(" ")
        return float(until) if until and boot_id == self._boot_id else None
