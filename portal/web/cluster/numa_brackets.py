"""Brackets left of the drawing: which GPUs are near one CPU (NUMA node)."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.contract.topology import GroupKind, NodeTopology
from portal.web.cluster.cell import ROW

TOP, HEIGHT = 22, 44
WORD = 28  # half of what the word beside the bracket takes


@dataclass(frozen=True, slots=True)
class Bracket:
    """A line from the first GPU to the last, with a gap for its word."""

    word: str
    top: int
    end: int

    @property
    def middle(self) -> float:
        return (self.top + self.end) / 2

    @property
    def path(self) -> str:
        if self.end - self.top < 4 * WORD:
            return f"M12 {self.top}H8V{self.end}H12"
        up, down = self.middle - WORD, self.middle + WORD
        return f"M12 {self.top}H8V{up}M8 {down}V{self.end}H12"

    @property
    def has_word(self) -> bool:
        return self.end - self.top >= 4 * WORD


def brackets(topology: NodeTopology, indexes: Iterable[int]) -> list[Bracket]:
    """One for each NUMA node whose GPUs stand side by side in the drawing; none otherwise."""
    rows = {index: nth for nth, index in enumerate(indexes)}
    found = []
    for group in topology.groups:
        if group.kind is not GroupKind.NUMA:
            continue
        here = sorted(rows[index] for index in group.gpus if index in rows)
        if here and here == list(range(here[0], here[-1] + 1)):
            top = TOP + ROW * here[0] + 2
            end = TOP + ROW * here[-1] + HEIGHT - 2
            found.append(Bracket(f"NUMA {group.number}", top, end))
    return found
