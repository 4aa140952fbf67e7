"""Where a job runs, or a request would: the GPUs of each node, as rows of blocks.

    nodes with their GPUs and the parts of each ─▶ draw_place ─▶ PlaceDrawing

The template is `templates/web/place.html`. Lengths are SVG user units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEFT = 58
ROW, GAP, NODE_GAP, NODE_TITLE = 32, 6, 8, 18
# Each further GPU of one block adds this height.
FURTHER_GPU = 14
NARROW_SCREEN = 340
# A part of less than this width gets no gap beside it.
NARROW = 4


def corner_radius(*, is_share: bool) -> int:
    """Shares have round ends because their isolation is soft."""
    return 10 if is_share else 3


@dataclass(frozen=True, slots=True)
class Part:
    """Of a GPU: `size` memory slots from `start`, or percent of its threads."""

    start: int
    size: int
    slots: int
    """Of the whole GPU."""
    cls: str
    """CSS class: who holds it."""
    label: str = ""
    """Inside the block, as far as it has room."""
    title: str = ""
    is_own: bool = False
    """Of the job that is drawn."""
    rows: int = 1
    """Neighbouring GPUs that it spans."""
    ink: str = "q"
    """CSS class of the label."""
    fill: str = ""
    is_share: bool = False
    """Of MPS."""

    @property
    def radius(self) -> int:
        return corner_radius(is_share=self.is_share)


GpuParts = tuple[str, Sequence[Part]]
"""The name of a GPU, and what lies on it."""


@dataclass(frozen=True, slots=True)
class Block:
    part: Part
    x: float
    width: float
    height: int

    @property
    def joints(self) -> list[int]:
        """y of each boundary between the GPUs that the block spans."""
        return [ROW + FURTHER_GPU * nth - 4 for nth in range(self.part.rows - 1)]


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A GPU, or several that the job's gang has together."""

    name: str
    y: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class PlaceNode:
    name: str
    y: int
    rows: tuple[PlaceRow, ...]


@dataclass(frozen=True, slots=True)
class PlaceDrawing:
    nodes: tuple[PlaceNode, ...]
    width: int
    height: int
    sentence: str
    """The same in words."""
    more: str
    """What is not drawn, in words; empty if all is."""

    @property
    def is_wide(self) -> bool:
        """Too wide for a narrow screen, where it is scrolled."""
        return self.width > NARROW_SCREEN

    @property
    def left(self) -> int:
        return LEFT

    @property
    def bar_width(self) -> int:
        return self.width - LEFT


def draw_place(
    nodes: Iterable[tuple[str, Sequence[GpuParts]]],
    sentences: Iterable[str],
    *,
    width: int,
    more: str = "",
) -> PlaceDrawing:
    """`sentences`: what the drawing shows, GPU by GPU; `more`: what it leaves out."""
    y, drawn = 0, []
    for name, gpus in nodes:
        top, rows = y, []
        y += NODE_TITLE
        for gpu, parts in gpus:
            height = ROW + FURTHER_GPU * (max(part.rows for part in parts) - 1)
            blocks = tuple(_block(part, width - LEFT, height) for part in parts)
            rows.append(PlaceRow(gpu, y, blocks))
            y += height + GAP
        drawn.append(PlaceNode(name, top, tuple(rows)))
        y += NODE_GAP
    words = "; ".join(filter(None, (*sentences, more)))
    return PlaceDrawing(tuple(drawn), width, max(0, y - GAP - NODE_GAP), words, more)


def _block(part: Part, bar_width: int, height: int) -> Block:
    x, full = LEFT + part.start * bar_width / part.slots, part.size * bar_width / part.slots
    margin = 1 if full > NARROW else 0
    return Block(part, round(x + margin, 1), max(1.0, round(full - 2 * margin, 1)), height)
