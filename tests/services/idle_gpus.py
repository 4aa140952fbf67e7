"""How long GPUs were idle while jobs waited that fitted, from the database's own rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.benchmarks.control_plane.database import JobLife

# Beginning and end, in seconds since the Unix epoch.
Stretch = tuple[float, float]


def idle_stretches(
    lives: Iterable[JobLife], gpus: Iterable[str], begun: float, without: Iterable[Stretch]
) -> list[Stretch]:
    """Of each GPU, all the time that it was idle while a job waited, the longest stretch first.

    `lives`: of jobs of one GPU each, that all were queued at `begun`, when all GPUs were free, and
    have all ended. A quota of all GPUs lets each of them start on any GPU. A GPU is idle from the
    moment that the portal knew the end of its job until it knows that another one runs on it. Of a
    stretch, what lies in `without` does not count, and what comes after it is another stretch.
    """
    by_gpu: dict[str, list[JobLife]] = defaultdict(list)
    for life in lives:
        by_gpu[str(life.gpu)].append(life)
    waited_until = max(_seconds(life.reserved_at) for rows in by_gpu.values() for life in rows)
    cuts = sorted(without)
    stretches: list[Stretch] = []
    for gpu in gpus:
        free_since = begun
        for life in sorted(by_gpu[gpu], key=lambda life: _seconds(life.reserved_at)):
            stretches += _outside(free_since, _seconds(life.known_started_at), cuts)
            free_since = _seconds(life.known_ended_at)
        stretches += _outside(free_since, waited_until, cuts)
    return sorted(stretches, key=lambda stretch: stretch[0] - stretch[1])


def _outside(begin: float, end: float, cuts: list[Stretch]) -> Iterator[Stretch]:
    for cut_begin, cut_end in cuts:
        if cut_begin > begin:
            yield from _if_any(begin, min(end, cut_begin))
        begin = max(begin, cut_end)
    yield from _if_any(begin, end)


def _if_any(begin: float, end: float) -> Iterator[Stretch]:
    if begin < end:
        yield begin, end


def _seconds(moment: object) -> float:
    assert hasattr(moment, "timestamp"), "each job was reserved a GPU, and has ended"
    return float(moment.timestamp())
