"""One cell of the cluster map: its geometry, colours and texts."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.web.place_drawing import corner_radius

# A row of memory slices spans LEFT to LEFT + WIDTH, in SVG user units.
LEFT, WIDTH = 74, 398
MINI_WIDTH = 127
# Distance from one GPU's row to the next.
ROW_HEIGHT = 50
# The same in a miniature; a cell there is 3 lower than its row.
MINI_ROW = 11
PATTERNS = {"fault": "url(#p-bad)", "dead": "url(#p-dead)"}
# Class of a cell's text, by the class of the cell.
INKS = {
    "mine": "on-mine",
    "team": "on-team",
    "other": "on-other",
    "carve": "on-move",
    "fault": "on-bad",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a GPU: `size` memory slices from `start`, on a board with `slots` of them.

    An MPS share is measured in percent of the threads instead; its `slots` are 100.
    """

    # CSS class: who holds the cell and what state it is in.
    cls: str
    start: int
    size: int
    slots: int
    # The two lines of text inside the cell.
    label: str = ""
    sublabel: str = ""
    title: str = ""
    href: str = ""
    # For the table: what was made here, who holds it or why nobody does, the job's label.
    device: str = ""
    occupancy: str = ""
    job: str = ""
    is_share: bool = False
    # `device` is the name of a MIG profile.
    is_code: bool = False
    # Time left, or what fits here.
    until: str = ""
    # Number of GPUs the cell spans; the rows it covers have no cells of their own.
    rows: int = 1
    # The details panel shows this cell.
    is_selected: bool = False

    @property
    def height(self) -> int:
        """Height on the large map."""
        return 43 + ROW_HEIGHT * (self.rows - 1)

    @property
    def joints(self) -> list[int]:
        """y of each boundary between the GPUs that the cell spans."""
        return [ROW_HEIGHT * nth - 3 for nth in range(1, self.rows)]

    @property
    def x(self) -> float:
        return round(LEFT + self.start * WIDTH / self.slots + 1, 1)

    @property
    def width(self) -> float:
        return round(self.size * WIDTH / self.slots - 2, 1)

    @property
    def text_x(self) -> float:
        return self.x + 6

    @property
    def mini_x(self) -> float:
        return round(self.start * MINI_WIDTH / self.slots + 0.5, 1)

    @property
    def mini_width(self) -> float:
        return max(0.5, round(self.size * MINI_WIDTH / self.slots - 1.5, 1))

    @property
    def mini_height(self) -> int:
        return MINI_ROW * self.rows - 3

    @property
    def mini_joints(self) -> list[int]:
        return [MINI_ROW * nth - 1 for nth in range(1, self.rows)]

    @property
    def radius(self) -> int:
        return corner_radius(is_share=self.is_share)

    @property
    def ink(self) -> str:
        return INKS.get(self.cls, "q")

    @property
    def fill(self) -> str:
        return PATTERNS.get(self.cls, "")

    @property
    def position(self) -> str:
        if self.is_share:
            return _("%(size)s %% of the threads") % {"size": self.size}
        if self.size == self.slots:
            return _("whole")
        if self.size == 1:
            return _("slot %(start)s") % {"start": self.start}
        end = self.start + self.size - 1
        return _("slots %(start)s to %(end)s") % {"start": self.start, "end": end}

    @property
    def is_held(self) -> bool:
        return self.cls in ("mine", "team", "other")
