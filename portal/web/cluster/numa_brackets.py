"""Brackets left of a node's drawing: which GPUs share a NUMA node."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.contract.topology import GroupKind, NodeTopology
from portal.web.cluster.cell import ROW_HEIGHT

TOP, HEIGHT = 22, 44
# Half the length of the label beside a bracket.
HALF_LABEL = 28


@dataclass(frozen=True, slots=True)
class Bracket:
    """A line from the first GPU to the last, with a gap for its label."""

    label: str
    top: int
    end: int

    @property
    def middle(self) -> float:
        return (self.top + self.end) / 2

    @property
    def path(self) -> str:
        if not self.has_label:
            return f"M12 {self.top}H8V{self.end}H12"
        up, down = self.middle - HALF_LABEL, self.middle + HALF_LABEL
        return f"M12 {self.top}H8V{up}M8 {down}V{self.end}H12"

    @property
    def has_label(self) -> bool:
        return self.end - self.top >= 4 * HALF_LABEL


def numa_brackets(topology: NodeTopology, indexes: Iterable[int]) -> list[Bracket]:
    """A bracket for each NUMA node whose GPUs are neighbours in the drawing.

    `indexes` are the GPU indexes in the order drawn.
    """
    row_of = {index: nth for nth, index in enumerate(indexes)}
    brackets = []
    for group in topology.groups:
        if group.kind is not GroupKind.NUMA:
            continue
        rows = sorted(row_of[index] for index in group.gpus if index in row_of)
        if rows and rows == list(range(rows[0], rows[-1] + 1)):
            top = TOP + ROW_HEIGHT * rows[0] + 2
            end = TOP + ROW_HEIGHT * rows[-1] + HEIGHT - 2
            brackets.append(Bracket(f"NUMA {group.number}", top, end))
    return brackets
