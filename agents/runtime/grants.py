"""X."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.contract.documents import DesiredReplica


@dataclass(frozen=True, slots=True)
class Grant:
    """What a replica is given beside its devices: names of its environment, and folders of the host
    (source, target) that its container sees."""

    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()


NO_GRANT = Grant()
GrantProvider = Callable[[DesiredReplica, Sequence[str]], Grant]


def no_grant(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
    """For runtimes of a node that gives no shares."""
    return NO_GRANT
