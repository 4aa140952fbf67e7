"""Which bytes the replicas of an attempt run: those of rank 0, or of an earlier attempt of the job.

A tag may name other bytes at any moment. Each node takes what its tag means there, and reports the
digest; what then differs is prepared again by the digest before anything runs.
"""

from collections.abc import Iterable, Mapping

from agents.contract.image_digest import is_local
from portal.jobs.models import Attempt, Replica


def with_other_image(gang: Iterable[Replica]) -> list[Replica]:
    """The replicas whose image is known, and is not that of rank 0."""
    replicas = list(gang)
    first = next((row.image_digest for row in replicas if row.rank == 0), "")
    return [row for row in replicas if first and row.image_digest not in ("", first)]


def attempt_digest(attempt: Attempt) -> str:
    """Of an attempt whose replicas are loaded: which bytes it runs; "" until that is known."""
    return next((row.image_digest for row in attempt.replicas.all() if row.rank == 0), "")


def digests_to_run(attempts: Iterable[Attempt]) -> Mapping[int, str]:
    """By attempt, the digest that its replicas are to have. Asks nothing for the first attempts of
    single replicas: whatever their node has will do."""
    several = [row for row in attempts if row.number > 1 or row.world > 1]
    bound = {row.pk: row.job_id for row in several}
    # Each has another image than the job.
    checks = {row.pk for row in several if row.is_preflight}
    jobs = set(bound.values())
    if not jobs:
        return {}
    rows = Replica.objects.filter(attempt__job__in=jobs, rank=0).exclude(image_digest="")
    columns = ("attempt__job_id", "attempt", "image_digest", "attempt__preflight")
    kept: dict[int, str] = {}
    of_rank_0: dict[int, str] = {}
    for job, attempt, digest, preflight in rows.order_by("attempt").values_list(*columns):
        of_rank_0[attempt] = digest
        # Another node cannot pull an image of no registry.
        if not is_local(digest) and preflight is None:
            kept.setdefault(job, digest)
    found = {
        pk: (pk not in checks and kept.get(job)) or of_rank_0.get(pk, "")
        for pk, job in bound.items()
    }
    return {pk: digest for pk, digest in found.items() if digest}
