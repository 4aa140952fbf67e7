"""What ends a replica that neither ended by itself nor was stopped for the portal.

Their codes are those of failed replicas; they spend a retry for infrastructure, never the user's.
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
