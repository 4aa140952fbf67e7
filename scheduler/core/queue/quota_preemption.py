"""Urgent work in a full quota: which running jobs of the same owner give theirs up.

Quota is checked before devices, so a job that is short of it never gets as far as the stage that
stops others for devices. It would wait until its owner's less urgent work ends, however idle the
cluster. See docs/decisions/0017-urgent-work-within-a-quota.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.preemption import PreemptionChoice, fewest_jobs, release_jobs
from scheduler.core.queue.reservation import find_with_merges
from scheduler.core.queue.running import PreemptibleJob

IsShort = Callable[[DeviceOption], bool]


def make_quota_room(
    job: WaitingJob,
    options: Sequence[DeviceOption],
    ledger: Ledger,
    own: Sequence[PreemptibleJob],
    others: Sequence[PreemptibleJob],
    *,
    is_short: IsShort,
) -> PreemptionChoice | None:
    """A placement for `job` if as few jobs as possible stop: of `own`, which share its quota, first
    ones first, and of `others` only where devices are short as well. The ledger then holds it
    without them. None: the ledger is as it was.

    `is_short`: whether the job has too little quota for this option, by the ledger's accounts."""
    mark = ledger.mark()

    def options_without(stops: Sequence[PreemptibleJob]) -> list[DeviceOption]:
        """The options that there is quota for once these have stopped, as on the ledger then."""
        ledger.rollback(mark)
        release_jobs(ledger, stops)
        return [option for option in options if not is_short(option)]

    def find_without(stops: Sequence[PreemptibleJob]) -> GangPlacement | None:
        paid = options_without(stops)
        return find_with_merges(job, paid, ledger) if paid else None

    ids = {each.run.job.id for each in own}
    # To look for a place costs far more than to look at quotas.
    enough = next((n for n in range(1, len(own) + 1) if options_without(own[:n])), None)
    stops: list[PreemptibleJob] | None = None
    if enough is not None:
        rest = [each for each in others if each.run.job.id not in ids]
        stops = _fewest_stops(own, enough, find_without)
        if stops is None and rest:
            stops = _fewest_stops([*own, *rest], enough, find_without)
    placement = find_without(stops) if stops else None
    if placement is None or not stops:
        ledger.rollback(mark)
        return None
    by_quota = PreemptionCause.QUOTA
    named = [replace(e, cause=by_quota) if e.run.job.id in ids else e for e in stops]
    return PreemptionChoice(placement, named)


def _fewest_stops(
    candidates: Sequence[PreemptibleJob],
    least: int,
    find_without: Callable[[Sequence[PreemptibleJob]], GangPlacement | None],
) -> list[PreemptibleJob] | None:
    """The shortest prefix, of at least so many, that is enough, without those that are not needed;
    None if even all of them are not."""
    low, high = least - 1, least
    if find_without(candidates[:least]) is None:
        low, high = least, len(candidates)
        if high == least or find_without(candidates) is None:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if find_without(candidates[:middle]) else (middle, high)
    return fewest_jobs(list(candidates[:high]), lambda fewer: find_without(fewer) is not None)
