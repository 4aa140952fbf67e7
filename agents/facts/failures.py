"""X."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """Why a replica could not be prepared or started here."""

    code: str
    sentence: str
