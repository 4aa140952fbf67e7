"""Which copies of a service start and which leave, and the wait after a failure. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

FIRST_WAIT = timedelta(seconds=1)
MAX_WAIT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class CopyState:
    """A copy that is not leaving, in the order in which they were started."""

    pk: int
    is_current: bool
    """Made of the present request, and not about to reach its time limit."""
    is_ready: bool


@dataclass(frozen=True, slots=True)
class CopyChanges:
    start: int = 0
    leave: tuple[int, ...] = ()
    """Keys of copies."""


def copy_changes(copies: Sequence[CopyState], target: int) -> CopyChanges:
    """What brings the copies to `target` current ones.

    Outdated copies that take calls are replaced one at a time: a new one starts, and once it is
    ready an old one leaves, so that never fewer than before are ready. One that takes no calls is
    no loss.
    """
    current = [copy for copy in copies if copy.is_current]
    outdated = [copy for copy in copies if not copy.is_current]
    serving = [copy for copy in outdated if copy.is_ready]
    ready = sum(copy.is_ready for copy in current)
    missing = target - len(current)
    if missing < 0:
        # The newest first, and those first that take no calls yet.
        by_use = sorted(current, key=lambda copy: (copy.is_ready, -copy.pk))
        leave = [copy.pk for copy in by_use[:-missing]]
    else:
        leave = []
    leave += [copy.pk for copy in outdated if not copy.is_ready]
    spare = max(0, ready + len(serving) - target)
    leave += [copy.pk for copy in serving[:spare]]
    if serving:
        # One beyond the target at a time; the next one once this one is ready.
        missing = min(missing, target + 1 - len(current) - len(serving))
    return CopyChanges(max(0, missing), tuple(leave))


def wait_after(failures: int) -> timedelta:
    """Before the next start after so many failures in a row: 1 s, doubled up to 5 minutes."""
    doublings = min(max(failures, 1) - 1, 16)
    return min(MAX_WAIT, FIRST_WAIT * (1 << doublings))
