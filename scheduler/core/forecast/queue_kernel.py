"""One compiled simulation run of the queue: when jobs start, given how long each will run.

Times in seconds from now; amounts in units of 1/56,000 GPU. A node is its free units: slices and
shares count by their units, wherever on the node they are.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.core.compiled import compiled
from scheduler.core.forecast.hazard import Floats, Ints

Flags = NDArray[np.bool_]

NONE, SKIP, EASY = 0, 1, 2
# The next ends of running jobs are searched one by one; only after this many are all sorted.
NEXT_ENDS = 8
# More than any key: a lower band never comes before a higher one.
_BAND = 1e15


@compiled
def _gangs(free: Ints, here: Flags, units: int) -> int:
    """How many replicas of this size fit."""
    found = 0
    for node in range(len(free)):
        if here[node]:
            found += free[node] // units
    return found


@compiled
def _place(
    free: Ints,
    here: Flags,
    units: int,
    replicas: int,
    chosen: Ints,
    future: Ints,
    kept: Ints,
    kept_here: Flags,
) -> bool:
    """Take the nodes with the least room that fit; all replicas or none. kept: (units, replicas,
    spare) of a reservation that must still fit into `future`; units 0 without one."""
    for replica in range(replicas):
        best = -1
        for node in range(len(free)):
            if not here[node] or free[node] < units:
                continue
            if best >= 0 and free[node] >= free[best]:
                continue
            if kept[0] > 0 and kept_here[node]:
                lost = future[node] // kept[0] - (future[node] - units) // kept[0]
                if lost > kept[2]:
                    continue
            best = node
        if best < 0:
            for back in range(replica):
                node = chosen[back]
                if kept[0] > 0:
                    if kept_here[node]:
                        before = future[node] // kept[0]
                        kept[2] += (future[node] + units) // kept[0] - before
                    future[node] += units
                free[node] += units
            return False
        chosen[replica] = best
        free[best] -= units
        if kept[0] > 0:
            if kept_here[best]:
                kept[2] -= future[best] // kept[0] - (future[best] - units) // kept[0]
            future[best] -= units
    return True


@compiled
def _reserve(
    free: Ints,
    here: Flags,
    units: int,
    replicas: int,
    limits: Floats,
    active: int,
    first: Ints,
    count: Ints,
    nodes: Ints,
    amounts: Ints,
    future: Ints,
) -> float:
    """When enough is free if jobs end by their limits; `future` becomes what is free then. Infinite
    if it never is."""
    future[:] = free
    fits = _gangs(free, here, units)
    order = np.empty(0, np.int64)
    job, step, at = 0, 0, -np.inf
    while step < active:
        if step < NEXT_ENDS:  # the next few ends are mostly enough, and sorting all is slow
            soonest = np.inf
            for other in range(active):
                if at < limits[other] < soonest:
                    soonest = limits[other]
            at = soonest
            for job in range(active):
                if limits[job] == at:
                    step += 1
                    fits += _let_go(here, units, first, count, nodes, amounts, future, job)
        else:
            if len(order) == 0:
                order = np.argsort(limits[:active])
            at = limits[order[step]]
            while step < active and limits[order[step]] == at:
                job = order[step]
                fits += _let_go(here, units, first, count, nodes, amounts, future, job)
                step += 1
        if fits >= replicas:
            return float(at)
    return float(np.inf)


@compiled
def _let_go(
    here: Flags,
    units: int,
    first: Ints,
    count: Ints,
    nodes: Ints,
    amounts: Ints,
    future: Ints,
    job: int,
) -> int:
    """Release a running job in `future`; returns how many more replicas fit then."""
    more = 0
    for entry in range(first[job], first[job] + count[job]):
        node = nodes[entry]
        if here[node]:
            more += (future[node] + amounts[entry]) // units - future[node] // units
        future[node] += amounts[entry]
    return more


@compiled
def _sort(order: Ints, waiting: int, now: float, jobs: Floats, patience: float) -> None:
    """By band, then by key; a long wait makes a key smaller. Stable; fast where little moved."""
    ranks = np.empty(waiting)
    for i in range(waiting):
        job = order[i]
        key = jobs[job, 0]
        if patience > 0:
            key /= 1.0 + max(0.0, now - jobs[job, 1]) / patience
        rank = key + jobs[job, 2] * _BAND
        at = i
        while at > 0 and ranks[at - 1] > rank:
            ranks[at], order[at] = ranks[at - 1], order[at - 1]
            at -= 1
        ranks[at], order[at] = rank, job


@compiled
def run_queue(
    free: Ints,
    allowed: Flags,
    allocations: tuple[Ints, Ints, Ints, Ints],
    ends: Floats,
    limits: Floats,
    shapes: Ints,
    jobs: Floats,
    runs: Floats,
    waiting: int,
    requested: Flags,
    patience: float,
    backfill: int,
) -> Floats:
    """Starts of all jobs; infinite for those that have not started when all requested ones have.

    allocations: (first, count) of each running job's entries, and the entries as (node, units).
    ends, limits: when running jobs end, and when by their limits. shapes: (jobs, 3) replicas,
    units, row of `allowed`. jobs: (jobs, 5) key, queued at, band, limit, may start at; those behind
    `waiting` join the queue when they may start, in that order. runs: seconds that each job will
    run. requested: whose start is needed, shape (jobs,).
    """
    total, running = len(jobs), len(ends)
    starts = np.full(total, np.inf)
    entries = len(allocations[2])
    nodes = np.empty(entries + shapes[:, 0].sum(), np.int64)
    amounts = np.empty_like(nodes)
    nodes[:entries], amounts[:entries] = allocations[2], allocations[3]
    first, count = np.empty(running + total, np.int64), np.empty(running + total, np.int64)
    first[:running], count[:running] = allocations[0], allocations[1]
    end, limit = np.empty(running + total), np.empty(running + total)
    end[:running], limit[:running] = ends, limits
    order = np.empty(total, np.int64)
    order[:waiting] = np.argsort(jobs[:waiting, 0], kind="mergesort")
    chosen, kept = np.empty(max(1, shapes[:, 0].max()), np.int64), np.zeros(3, np.int64)
    future, failed = np.empty_like(free), np.empty((len(allowed), 2, 3), np.int64)
    now, sorted_at, arrived, queued, left = 0.0, 0.0, waiting, waiting, requested.sum()
    _sort(order, queued, now, jobs, patience)
    while left > 0:
        most = free.max()
        promised, kept[0], stuck, write = np.inf, 0, False, 0
        row = 0
        failed[:] = most + 1  # units of the last single job; units and replicas of the last gang
        for i in range(queued):
            job = order[i]
            replicas, units, here = shapes[job, 0], shapes[job, 1], shapes[job, 2]
            fits = False
            gone = now + jobs[job, 3] <= promised  # before the promised time
            side = 0 if gone else 1
            hopeless = units >= failed[here, side, 0] or (
                units >= failed[here, side, 1] and replicas >= failed[here, side, 2]
            )
            if not stuck and units <= most and not hopeless:
                reserved = kept[0]
                if gone:
                    kept[0] = 0
                fits = _place(
                    free, allowed[here], units, replicas, chosen, future, kept, allowed[row]
                )
                kept[0] = reserved
                if not fits and replicas == 1:
                    failed[here, side, 0] = units  # nor does anything larger
                elif not fits:
                    failed[here, side, 1], failed[here, side, 2] = units, replicas
            if fits:
                starts[job] = now
                left -= requested[job]
                first[running], count[running] = entries, replicas
                for replica in range(replicas):
                    nodes[entries], amounts[entries] = chosen[replica], units
                    entries += 1
                end[running], limit[running] = now + runs[job], now + jobs[job, 3]
                running += 1
                most = free.max()
                continue
            order[write] = job
            write += 1
            if backfill == NONE:
                stuck = True
            elif backfill == EASY and kept[0] == 0 and not stuck:
                promised = _reserve(
                    free,
                    allowed[here],
                    units,
                    replicas,
                    limit,
                    running,
                    first,
                    count,
                    nodes,
                    amounts,
                    future,
                )
                kept[0], kept[1], row = units, replicas, here
                kept[2] = _gangs(future, allowed[here], units) - replicas
            if most == 0 and kept[0] > 0:
                stuck = True
        queued = write
        if left == 0:
            break
        upcoming = np.inf
        for job in range(running):
            upcoming = min(upcoming, end[job])
        if arrived < total:
            upcoming = min(upcoming, jobs[arrived, 4])
        if upcoming == np.inf:
            break
        now = upcoming
        job = 0
        while job < running:
            if end[job] > now:
                job += 1
                continue
            for entry in range(first[job], first[job] + count[job]):
                free[nodes[entry]] += amounts[entry]
            running -= 1
            first[job], count[job] = first[running], count[running]
            end[job], limit[job] = end[running], limit[running]
        came = arrived
        while arrived < total and jobs[arrived, 4] <= now:
            order[queued] = arrived
            queued += 1
            arrived += 1
        if arrived > came or now - sorted_at > patience / 100:
            _sort(order, queued, now, jobs, patience)
            sorted_at = now
    return starts
