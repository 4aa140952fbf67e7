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

    def find_without(stops: Sequence[PreemptibleJob]) -> GangPlacement | None:
        ledger.rollback(mark)
        release_jobs(ledger, stops)
        paid = [option for option in options if not is_short(option)]
        return find_with_merges(job, paid, ledger) if paid else None

    ids = {each.run.job.id for each in own}
    stops = _enough(own, find_without)
    if stops is None:
        rest = [each for each in others if each.run.job.id not in ids]
        stops = _enough([*own, *rest], find_without) if rest else None
    placement = find_without(stops) if stops else None
    if placement is None or not stops:
        ledger.rollback(mark)
        return None
    by_quota = PreemptionCause.QUOTA
    named = [replace(e, cause=by_quota) if e.run.job.id in ids else e for e in stops]
    return PreemptionChoice(placement, named)


def _enough(
    candidates: Sequence[PreemptibleJob],
    find_without: Callable[[Sequence[PreemptibleJob]], GangPlacement | None],
) -> list[PreemptibleJob] | None:
    """The shortest prefix that is enough, without those that are not needed; None if even all of
    them are not."""
    if find_without(candidates) is None:
        return None
    low, high = 0, len(candidates)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if find_without(candidates[:middle]) else (middle, high)
    return fewest_jobs(list(candidates[:high]), lambda fewer: find_without(fewer) is not None)
