"""Which pairs of nodes are measured where a ring of them is slow: its neighbours, in rounds in
which each node is in one pair at most. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from agents.launchers.pair_rounds import name_of_pair

T = TypeVar("T")


def ring_neighbours(nodes: Sequence[T]) -> list[tuple[T, T]]:
    """Each node with the next one, and the last with the first. Two nodes are one pair."""
    pairs = list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))
    return pairs if len(nodes) > 2 else pairs[:1]


def disjoint_rounds(nodes: Sequence[T]) -> list[list[tuple[T, T]]]:
    """All neighbours of a ring of three nodes or more, in two rounds; in three if their number is
    odd, for which two are too few."""
    pairs = ring_neighbours(nodes)
    alone = pairs[-1:] if len(nodes) % 2 else []
    others = pairs[: len(pairs) - len(alone)]
    return [pairs for pairs in (others[::2], others[1::2], alone) if pairs]


@dataclass(frozen=True, slots=True)
class PairRounds:
    """The rounds of one gang."""

    rounds: tuple[tuple[str, ...], ...]
    """Names of pairs, as `pair_rounds` of the launcher reads and prints them."""
    nodes: Mapping[str, tuple[UUID, UUID]]
    """By name of a pair; the node with the lower name first."""

    @property
    def argument(self) -> str:
        return "/".join(",".join(names) for names in self.rounds)


def gang_rounds(nodes: Sequence[UUID], ranks: Mapping[UUID, Sequence[int]]) -> PairRounds:
    """`nodes`: three or more, by name; `ranks`: those of the replicas of each."""
    rounds: list[tuple[str, ...]] = []
    found: dict[str, tuple[UUID, UUID]] = {}
    for pairs in disjoint_rounds(nodes):
        names = []
        for pair in pairs:
            first, second = sorted(pair, key=nodes.index)
            name = name_of_pair(ranks[first], ranks[second])
            names.append(name)
            found[name] = (first, second)
        rounds.append(tuple(names))
    return PairRounds(tuple(rounds), found)
