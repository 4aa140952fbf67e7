"""What becomes of a node's work when contact is lost for a whole lease. Pure, for both sides."""

from enum import StrEnum


class LeaseEnd(StrEnum):
    """What a node does with its running replicas when its lease ends.

    Of a node that does not report it, nothing is known; see `DEFAULT`."""

    STOP = "stop"
    KEEP = "keep"


# Also of agents that do not report it: their replicas may be running.
DEFAULT = LeaseEnd.KEEP


def seconds_until_over(
    on_lease_end: str, *, grace_seconds: int, kill_seconds: int, margin_seconds: int
) -> int | None:
    """How long after the end of its node's lease a replica has certainly ended.

    None: never, since the node may keep it running. `grace_seconds`: the replica's own;
    `kill_seconds`: what the engine needs at least, whatever the grace period."""
    if on_lease_end != LeaseEnd.STOP:
        return None
    return max(grace_seconds, kill_seconds) + margin_seconds
