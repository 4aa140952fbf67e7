"""Pairs of nodes between which collectives are slow or wrong, and which nodes a gang leaves out for
them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.placement.ledger import Ledger


@dataclass(frozen=True, slots=True)
class SlowPairs:
    """Of one pass, by the ids of nodes. False if there are none."""

    peers: Mapping[str, frozenset[str]]
    """By node: those that it is slow with."""
    cover: tuple[str, ...]
    """Nodes without which no slow pair is left, the one with most slow pairs first."""

    def __bool__(self) -> bool:
        return bool(self.peers)

    def is_slow_with_any(self, node: str, others: Iterable[str]) -> bool:
        """Whether the node makes a slow pair with one of the others."""
        return not self.peers.get(node, frozenset()).isdisjoint(others)


def slow_pairs_of(ledger: Ledger) -> SlowPairs:
    """Those of its snapshot."""
    return ledger.cached("slow pairs", lambda: _read(ledger), for_whole_pass=True)


def _read(ledger: Ledger) -> SlowPairs:
    pairs = ledger.snapshot.slow_pairs
    if not pairs:
        return SlowPairs({}, ())
    ids = {node.name: node.id for node in ledger.snapshot.nodes}
    known = [(p.first, p.second) for p in pairs if p.first in ids and p.second in ids]
    peers: dict[str, set[str]] = {}
    for first, second in known:
        peers.setdefault(ids[first], set()).add(ids[second])
        peers.setdefault(ids[second], set()).add(ids[first])
    cover = tuple(ids[name] for name in _cover(known))
    return SlowPairs({node: frozenset(others) for node, others in peers.items()}, cover)


def _cover(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names, one of each pair at least; small, not the smallest."""
    left, found = set(pairs), []
    while left:
        counts = Counter(name for pair in left for name in pair)
        name = min(counts, key=lambda name: (-counts[name], name))
        found.append(name)
        left = {pair for pair in left if name not in pair}
    return found
