"""Arrivals and departures as one list that no decision changes.

An event e >= 0 is the arrival of request number e, e < 0 the departure of request -e - 1; a request
that found no place departs unnoticed.
"""

import numpy as np

from scheduler.replay.openb_data import GPU_MILLI, Ints, TracePods

ARRIVALS = 60_000
COUNTED_AFTER = 25_000  # arrivals; until then the cluster fills


def only_arrivals(requests: int) -> Ints:
    return np.arange(requests, dtype=np.int64)


def churn(
    pods: TracePods, gpus: int, load: float, seed: int, arrivals: int = ARRIVALS
) -> tuple[Ints, Ints, int]:
    """(pod of each request, events, events before COUNTED_AFTER).

    Pods drawn uniformly, lifetimes exponential, in arrivals; their mean offers `load` percent of
    the cluster's GPUs in steady state.
    """
    random = np.random.default_rng(seed)
    drawn = random.integers(len(pods.kind), size=arrivals)
    lifetime = load / 100 * gpus / (float(pods.milli.mean()) / GPU_MILLI)
    leaves = np.arange(arrivals) + random.exponential(lifetime, arrivals)
    times = np.concatenate([np.arange(arrivals, dtype=float), leaves])
    events = np.concatenate([np.arange(arrivals), -np.arange(arrivals) - 1])
    order = np.lexsort((events, times))
    order = order[times[order] < arrivals]
    counted = int(np.searchsorted(times[order], min(COUNTED_AFTER, arrivals // 2)))
    return drawn.astype(np.int64), events[order].astype(np.int64), counted
