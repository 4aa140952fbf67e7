"""Why a replica will not run on this node."""

from dataclasses import dataclass

from agents.contract.message import NO_MESSAGE, Message


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """A code for the portal, and a sentence for people."""

    code: str
    sentence: str
    message: Message = NO_MESSAGE
    """What the sentence was made of, where the portal can translate it."""
