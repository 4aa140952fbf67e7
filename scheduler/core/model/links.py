"""The links between the GPUs of a node, and which GPUs a gang should get.

A collective runs in a ring, whose slowest link sets the pace. So a set of GPUs is worth the
bottleneck of its best ring (a Hamiltonian cycle), in MB/s per direction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from math import comb

from agents.contract.topology import NodeTopology

# With more sets of GPUs on one node than this, only neighbouring ones are compared.
MAX_SETS = 256
# With more GPUs than this, the exact search for a ring costs too much: see `_has_ring`.
MAX_EXACT_RING = 9


@dataclass(frozen=True, eq=False)
class Links:
    """The links of one node, by GPU index. Equal nodes share one object, which caches rely on."""

    mb_per_second: tuple[tuple[int, ...], ...] = ()
    """[a][b] is 0 if unknown."""
    nvlink: tuple[tuple[bool, ...], ...] = ()
    """[a][b] is whether NVLink connects the two."""

    def __bool__(self) -> bool:
        return bool(self.mb_per_second)


UNKNOWN = Links()


@lru_cache(4_096)
def links_of(topology: NodeTopology) -> Links:
    """The links that a node's agent reports; UNKNOWN if it reports none."""
    if not topology.pairs:
        return UNKNOWN
    size = max(pair.other for pair in topology.pairs) + 1
    rates = [[0] * size for _ in range(size)]
    joined = [[False] * size for _ in range(size)]
    for pair in topology.pairs:
        for a, b in ((pair.one, pair.other), (pair.other, pair.one)):
            rates[a][b] = pair.mb_per_second
            joined[a][b] = pair.nvlinks > 0
    return interned_links(tuple(map(tuple, rates)), tuple(map(tuple, joined)))


@lru_cache(1_024)
def interned_links(
    rates: tuple[tuple[int, ...], ...], joined: tuple[tuple[bool, ...], ...]
) -> Links:
    """The shared object of these two tables."""
    return Links(rates, joined)


@lru_cache(65_536)
def bottleneck(links: Links, gpus: tuple[int, ...]) -> int:
    """MB/s of the slowest link of the best ring over `gpus` (indexes, ascending); 0 if a link is
    unknown. A single GPU counts as the fastest known link of the node, because it needs none."""
    if not links or max(gpus, default=0) >= len(links.mb_per_second):
        return 0
    rates = links.mb_per_second
    if len(gpus) < 2:
        return max(map(max, rates), default=0)
    rates_of_pairs = sorted({rates[a][b] for a, b in combinations(gpus, 2)}, reverse=True)
    return next((rate for rate in rates_of_pairs if rate and _has_ring(rates, gpus, rate)), 0)


def _has_ring(rates: Sequence[Sequence[int]], gpus: tuple[int, ...], min_rate: int) -> bool:
    """Whether there is a ring over all of `gpus` whose links all carry at least `min_rate`.

    Exact up to MAX_EXACT_RING GPUs. Above, it checks Dirac's condition, which is sufficient but not
    necessary: every GPU has such links to at least half of the others."""
    near = [
        sum(1 << j for j, b in enumerate(gpus) if i != j and rates[a][b] >= min_rate)
        for i, a in enumerate(gpus)
    ]
    count = len(gpus)
    if count == 2:
        return near[0] == 2
    if any(mask.bit_count() < 2 for mask in near):
        return False
    if count > MAX_EXACT_RING:
        return all(2 * mask.bit_count() >= count for mask in near)
    return _closes(near, count)


def _closes(near: list[int], count: int) -> bool:
    """The table of Held and Karp: `ends[visited]` are the GPUs where a path from GPU 0 may end."""
    ends = [0] * (1 << count)
    ends[1] = 1
    for visited in range(1, 1 << count, 2):
        for last in range(count):
            if ends[visited] >> last & 1:
                for after in range(1, count):
                    if near[last] & ~visited & 1 << after:
                        ends[visited | 1 << after] |= 1 << after
    return bool(ends[-1] & near[0])


@lru_cache(65_536)
def ring_by_nvlink(links: Links, gpus: tuple[int, ...]) -> bool:
    """Whether a ring over `gpus` (indexes, ascending) can use NVLink alone. True if the node does
    not report its links."""
    if not links or len(gpus) < 2:
        return True
    return gpus[-1] < len(links.nvlink) and _has_ring(links.nvlink, gpus, 1)


@lru_cache(65_536)
def best_set(
    links: Links, free: tuple[tuple[int, int], ...], count: int, preferred: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Which `count` of the `free` GPUs, each (index, NUMA node or -1), ascending by index.

    Prefers the fastest ring; then the fewest and fullest NUMA nodes; then GPUs of `preferred`, the
    rails that the gang has on another node; then what leaves the other GPUs the fastest ring; then
    the lowest indexes. `free` must have at least `count` entries."""
    numa = dict(free)
    indexes = tuple(index for index, _ in free)
    others = {gpus: tuple(i for i in indexes if i not in gpus) for gpus in _sets(free, count)}

    def rank(gpus: tuple[int, ...]) -> tuple[object, ...]:
        rest = bottleneck(links, others[gpus]) if len(others[gpus]) > 1 else 0
        split = len({numa[i] for i in gpus}), _left_beside(numa, gpus)
        return (-bottleneck(links, gpus), *split, -len(set(gpus) & set(preferred)), -rest, gpus)

    return min(others, key=rank)


def _left_beside(numa: dict[int, int], gpus: tuple[int, ...]) -> int:
    """How many GPUs of their NUMA nodes stay free: fuller NUMA nodes are used first."""
    nodes = {numa[i] for i in gpus}
    return sum(1 for index, node in numa.items() if node in nodes and index not in gpus)


def _sets(free: tuple[tuple[int, int], ...], count: int) -> Iterable[tuple[int, ...]]:
    indexes = [index for index, _ in free]
    if comb(len(indexes), count) <= MAX_SETS:
        return combinations(indexes, count)
    by_numa = sorted(free, key=lambda entry: (entry[1], entry[0]))
    near = [index for index, _ in by_numa]
    runs = [tuple(sorted(near[i : i + count])) for i in range(len(near) - count + 1)]
    return [*dict.fromkeys([*runs, *islice(combinations(indexes, count), MAX_SETS)])]
