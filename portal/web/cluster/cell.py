"""One block of the cell map: where it is drawn, in which colours, and its words."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

# The memory slices of a row lie between LEFT and LEFT + WIDTH, in SVG user units.
LEFT, WIDTH = 74, 398
MINI_WIDTH = 127
# From one GPU's row to the next.
ROW = 50
PATTERNS = {"fault": "url(#p-bad)", "dead": "url(#p-dead)"}
# The ink of a block's words, by its class.
INKS = {
    "mine": "on-mine",
    "team": "on-team",
    "other": "on-other",
    "carve": "on-move",
    "fault": "on-bad",
}


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a GPU, `size` memory slices from `start`, of a board with `of` of them.

    `cls` says who holds it and what it is. `first` and `second` are the words inside; `where`,
    `what` and `who` the same facts for the table. A share's `start` and `size` are percent of the
    threads, `of` 100. `is_code`: `what` is a profile's name. `until`: how long it is held, or what
    fits there. `rows`: over how many GPUs it goes; the rows below it then have none. `is_chosen`:
    it is the one that the panel tells of.
    """

    cls: str
    start: int
    size: int
    of: int
    first: str = ""
    second: str = ""
    title: str = ""
    href: str = ""
    what: str = ""
    who: str = ""
    job: str = ""
    is_share: bool = False
    is_code: bool = False
    until: str = ""
    rows: int = 1
    is_chosen: bool = False

    @property
    def height(self) -> int:
        """Its height on the large map."""
        return 43 + ROW * (self.rows - 1)

    @property
    def joints(self) -> list[int]:
        """Between the GPUs that it goes over."""
        return [ROW * nth - 3 for nth in range(1, self.rows)]

    @property
    def x(self) -> float:
        return round(LEFT + self.start * WIDTH / self.of + 1, 1)

    @property
    def width(self) -> float:
        return round(self.size * WIDTH / self.of - 2, 1)

    @property
    def text_x(self) -> float:
        return self.x + 6

    @property
    def mini_x(self) -> float:
        return round(self.start * MINI_WIDTH / self.of + 0.5, 1)

    @property
    def mini_width(self) -> float:
        return max(0.5, round(self.size * MINI_WIDTH / self.of - 1.5, 1))

    @property
    def radius(self) -> int:
        """Shares have soft edges: their isolation is soft."""
        return 10 if self.is_share else 3

    @property
    def ink(self) -> str:
        return INKS.get(self.cls, "q")

    @property
    def fill(self) -> str:
        return PATTERNS.get(self.cls, "")

    @property
    def where(self) -> str:
        if self.is_share:
            return _("%(size)s %% of the threads") % {"size": self.size}
        if self.size == self.of:
            return _("whole")
        if self.size == 1:
            return _("slot %(start)s") % {"start": self.start}
        end = self.start + self.size - 1
        return _("slots %(start)s to %(end)s") % {"start": self.start, "end": end}

    @property
    def is_held(self) -> bool:
        return self.cls in ("mine", "team", "other")
