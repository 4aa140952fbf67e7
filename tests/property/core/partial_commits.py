"""A plan that was carried out in part, as a committer that dies leaves it: whole gangs only."""

from dataclasses import replace

from scheduler.core.model.snapshot import RunningJob
from tests.property.core.plan_effects import carried_out


def begun(snapshot, places):
    """`snapshot` after these placements: their devices are held and their jobs run since now."""
    jobs = {job.id: job for job in snapshot.jobs}
    running = tuple(
        RunningJob(jobs[p.job], tuple(map(_named(p), p.replicas)), snapshot.now) for p in places
    )
    after = carried_out(snapshot, places)
    return replace(after, running=(*snapshot.running, *running))


def stopped(snapshot, preempts):
    """`snapshot` when these have been told to stop."""
    told = {preempt.job for preempt in preempts}
    return replace(
        snapshot,
        running=tuple(
            replace(r, stopping=r.stopping or r.job.id in told) for r in snapshot.running
        ),
    )


def _named(place):
    """A new slice has an id once it is held."""

    def replica(old):
        return replace(
            old,
            devices=tuple(
                replace(d, slice=d.slice or f"new-{place.job}-{old.rank}-{number}")
                for number, d in enumerate(old.devices)
            ),
        )

    return replica
