"""The result of nccl-tests on the Results tab: reached beside expected."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from portal.jobs.models import Job, Replica
from portal.node_pairs.job_bandwidth import job_bandwidth
from portal.node_pairs.services import gigabytes_per_second
from portal.storage.errors import StoreUnavailable
from portal.web.wording.messages import message_text

WIDTH = 200

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownBandwidth:
    busbw: str
    message_mib: str
    expected: str
    """Empty if unknown."""
    basis: str
    percent: int
    width: float
    """Of the drawn bar, of WIDTH."""
    checks: list[str]


def shown_bandwidth(job: Job, replicas: Sequence[Replica]) -> ShownBandwidth | None:
    """None for a job that measured none, and while its log cannot be read."""
    try:
        reached = job_bandwidth(job, replicas)
    except StoreUnavailable as error:
        log.warning("the log of %s cannot be read: %s", job.label, error)
        return None
    if reached is None:
        return None
    expected = reached.expected_mb_per_second
    share = reached.busbw_mb_per_second / expected if expected else 0.0
    return ShownBandwidth(
        busbw=gigabytes_per_second(reached.busbw_mb_per_second),
        message_mib=f"{reached.message_bytes / (1 << 20):,.5g}",
        expected=gigabytes_per_second(expected) if expected else "",
        basis=message_text(reached.basis),
        percent=round(100 * share),
        width=round(WIDTH * min(1.0, share), 1),
        checks=[message_text(check) for check in reached.checks],
    )
