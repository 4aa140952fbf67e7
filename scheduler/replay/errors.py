"""What is wrong with a replay's options or files, in one sentence that says what to do."""


class ReplayError(Exception):
    """`scheduler.replay` prints it on stderr and ends with 2."""
