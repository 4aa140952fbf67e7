"""What ends a replica that neither ended by itself nor was stopped for the portal: what happens
around it, or that it exceeds a limit.

Their codes are those of failed replicas. What happens around it spends a retry for infrastructure,
never the user's; an excess is a failure of the job's own.
"""

from enum import StrEnum

from agents.contract.message import Message


class EndCause(StrEnum):
    LEASE_OVER = "lease_over"
    AGENT_STOPPED = "agent_stopped"
    ENGINE_RESTARTED = "engine_restarted"
    NODE_RESTARTED = "node_restarted"

    @property
    def message(self) -> Message:
        return _MESSAGES[self]


class ExcessCause(StrEnum):
    DISK_FULL = "disk_full"

    @property
    def message(self) -> Message:
        return _EXCESSES[self]


def read_cause(code: str) -> EndCause | ExcessCause:
    """Raises ValueError."""
    return ExcessCause(code) if code in EXCESS_CAUSES else EndCause(code)


EXCESS_CAUSES = frozenset(map(str, ExcessCause))
END_CAUSES = frozenset(map(str, EndCause))

_MESSAGES: dict[EndCause, Message] = {
    EndCause.LEASE_OVER: Message(
        "Its node was out of contact with the portal for the whole lease, and stopped it"
    ),
    EndCause.AGENT_STOPPED: Message("The agent of its node was stopped, with all jobs there"),
    EndCause.ENGINE_RESTARTED: Message(
        "The container engine of its node was stopped or restarted, which ended it"
    ),
    EndCause.NODE_RESTARTED: Message("Its node was shut down or restarted while it ran"),
}

_EXCESSES: dict[ExcessCause, Message] = {
    ExcessCause.DISK_FULL: Message("It wrote more than its disk holds, and was stopped"),
}
