"""The error of a replay."""


class ReplayError(Exception):
    """Invalid options or files, in one sentence that says what to do. `scheduler.replay` prints it
    on stderr and exits with 2."""
