"""The virtual time of a random walk."""


class Clock:
    """Replaces `time` in the loop: sleeping only advances it."""

    CLOCK_BOOTTIME = 7

    def __init__(self) -> None:
        self.now = self.booted_at = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time(self) -> float:
        return self.now

    def clock_gettime(self, _: int) -> float:
        return self.now - self.booted_at
