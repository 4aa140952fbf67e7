"""Why a replica will not run on this node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """A code for the portal, and a sentence for people."""

    code: str
    sentence: str
