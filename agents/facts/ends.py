"""How a replica was started and why it was stopped, as the journal keeps it."""

from dataclasses import dataclass

# The cause of a stop that the portal wants, or that a recorded failure requires.
REQUESTED = ""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A start: under which boot of the node, and with which grace period for any later stop."""

    boot_id: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class StopRecord:
    """A stop that the agent was about to carry out."""

    # An `EndCause`, an `ExcessCause`, or REQUESTED.
    cause: str
    # Unix seconds.
    at: float
