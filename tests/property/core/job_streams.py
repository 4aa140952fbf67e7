"""Streams of jobs played through the production planner under a virtual clock, with quotas."""

from collections import Counter
from dataclasses import dataclass, field, replace

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.snapshot import PRIORITY_RANK
from scheduler.core.plan import plan
from tests.support.queue_worlds import a_busy_cluster, a_run

# Passes of one moment: who stops makes room for who starts in the next one.
AT_ONCE = 20


@dataclass
class Played:
    """`passes`: (now, snapshot, plan). `first`: by job, when and in which pass it started first."""

    passes: list = field(default_factory=list)
    first: dict = field(default_factory=dict)
    ended: dict = field(default_factory=dict)


def arrival(job):
    return (job.queued_at, int(job.id))


def overtakes(late, early):
    """`late` arrived after `early` and has no higher priority."""
    no_higher = PRIORITY_RANK[late.priority] >= PRIORITY_RANK[early.priority]
    return no_higher and arrival(late) > arrival(early)


def play_stream(sizes, jobs, seconds, policy, quotas=(), owners=()):
    """Jobs come at `queued_at`, run `seconds[id]` in all, and go on where they were stopped. What
    was counted as overtaken is kept until the job starts, as the committer does."""
    coming = sorted(jobs, key=arrival)
    queue, running, left = {}, {}, dict(seconds)
    played, now = Played(), coming[0].queued_at
    while len(played.ended) < len(jobs):
        while coming and coming[0].queued_at <= now:
            job = coming.pop(0)
            queue[job.id] = job
        for key in [k for k, run in running.items() if run.started_at + left[k] <= now]:
            played.ended[key] = now
            del running[key]
        for _ in range(AT_ONCE):
            snapshot = _snapshot(sizes, running, queue, now, quotas, owners)
            found = plan(snapshot, policy)
            played.passes.append((now, snapshot, found))
            _carry_out(found, queue, running, left, played, now)
            if not found.preemptions:
                break
        times = [run.started_at + left[key] for key, run in running.items()]
        times += [job.queued_at for job in coming[:1]]
        # Who is protected now may be stopped later.
        times += [now + policy.protection_seconds] if queue and running else []
        assert times or len(played.ended) == len(jobs), f"{sorted(queue)} wait for nothing"
        now = min((t for t in times if t > now), default=now)
    return played


def _snapshot(sizes, running, queue, now, quotas, owners):
    used = Counter()
    for run in running.values():
        units = run.job.device.gpus * run.job.replicas * UNITS_PER_GPU
        used[run.job.project, ""] += units
        used[run.job.project, run.job.user] += units
    cluster = a_busy_cluster(sizes, running=running.values(), jobs=queue.values())
    told = tuple(replace(q, used_units=used[q.project, q.user]) for q in quotas)
    return replace(cluster, now=now, quotas=told, owners=tuple(owners))


def _carry_out(found, queue, running, left, played, now):
    for stop in found.preemptions:
        run = running.pop(stop.job)
        left[stop.job] -= now - run.started_at
        done = run.job.attained_seconds + now - run.started_at
        again = run.job.preempted + 1
        queue[stop.job] = replace(run.job, attained_seconds=done, preempted=again)
    for key in found.bypassed:
        queue[key] = replace(queue[key], bypassed=queue[key].bypassed + 1)
    for place in found.placements:
        job = replace(queue.pop(place.job), bypassed=0)
        devices = [d.gpu for r in place.replicas for d in r.devices]
        running[job.id] = replace(a_run(job, *devices), started_at=now)
        played.first.setdefault(job.id, (now, len(played.passes) - 1))
