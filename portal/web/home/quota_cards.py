"""The quotas of the user's projects: a ring for one project, a bar for each of several."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from agents.contract.units import as_gpus
from portal.allocations.selectors import HeldUnits
from portal.quotas.figures import QuotaFigures, limit_parts, quota_figures
from portal.quotas.models import Quota
from scheduler.core.quota.promises import QuotaPromise

RING_LENGTH = 289.03
"""The circumference of the ring's circle, whose radius is 46."""
# Figures of this many characters are set smaller, or they would overrun the ring.
WIDE_FROM, WIDEST_FROM, LONG_LIMIT_FROM = 6, 8, 5


@dataclass(frozen=True, slots=True)
class HomeQuota:
    """The quota of one project for all GPU models, as one of its members sees it."""

    project: str
    figures: QuotaFigures | None
    """None if no quota is set."""
    own_units: int
    """What the user's own jobs hold."""

    @property
    def others_units(self) -> int:
        held = self.figures.held_units if self.figures else 0
        return max(0, held - self.own_units)

    @property
    def parts(self) -> list[tuple[str, int]]:
        """CSS class and units of each part in use: one's own, others', promised."""
        promised = self.figures.promised_units if self.figures else 0
        parts = (("mine", self.own_units), ("team", self.others_units), ("kept", promised))
        return [(cls, units) for cls, units in parts if units]

    @property
    def arcs(self) -> list[tuple[str, float, float]]:
        """CSS class, length and offset of each arc of the ring."""
        return [
            (f"ring-{cls}", round(RING_LENGTH * part, 1), round(-RING_LENGTH * start, 1))
            for cls, start, part in self._shares()
        ]

    @property
    def bars(self) -> list[tuple[str, float, float]]:
        """CSS class, x and width of each part of a bar that is 100 wide."""
        return [
            (f"bar-{cls}", round(100 * start, 1), round(100 * part, 1))
            for cls, start, part in self._shares()
        ]

    @property
    def figure_class(self) -> str:
        """How large the ring's figure can be without overrunning it."""
        held = as_gpus(self.figures.held_units) if self.figures else ""
        if len(held) >= WIDEST_FROM:
            return "ring-n widest"
        return "ring-n wide" if len(held) >= WIDE_FROM else "ring-n"

    @property
    def is_limit_long(self) -> bool:
        """Whether the limit fills the ring's second line alone."""
        limit = as_gpus(self.figures.limit_units) if self.figures else ""
        return len(limit) >= LONG_LIMIT_FROM

    def _shares(self) -> Iterator[tuple[str, float, float]]:
        return limit_parts(self.figures.limit_units if self.figures else 0, self.parts)


def project_quotas(
    projects: Collection[str], held: Iterable[HeldUnits], promises: Collection[QuotaPromise]
) -> list[HomeQuota]:
    """One for each project, in the order of `projects`. `held`: by the user's own jobs. One
    query."""
    rows = Quota.objects.filter(project__slug__in=list(projects), user__isnull=True, model="")
    rows = rows.select_related("project", "user")
    figures = {row.project.slug: quota_figures(row, promises) for row in rows}
    own: dict[str, int] = {}
    for each in held:
        own[each.project] = own.get(each.project, 0) + each.units
    return [HomeQuota(slug, figures.get(slug), own.get(slug, 0)) for slug in projects]
