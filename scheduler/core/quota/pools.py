"""Quotas of one GPU model, or of all models, with lending between projects. Amounts are in units.

A project within its limit is never refused here, although others may have borrowed what it left
idle: its job starts where devices are free, and otherwise reclaims them from borrowers (`reclaim`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class QuotaAccount:
    """The quota of one owner, and what the owner uses of it."""

    limit: int
    in_use: int
    """What counts against the limit: held when the pass began, plus `promised`, less what it stops.
    """
    borrow: int = 0
    """How far the owner may go beyond the limit."""
    lend: int = 0
    """How much of its idle quota others may borrow."""
    held: int = field(init=False)
    """By running and placed jobs when the pass began."""
    promised: int = 0
    """What the pass keeps for jobs of the queue that had their turn."""

    def __post_init__(self) -> None:
        self.held = self.in_use

    def count(self, units: int, promised: int) -> None:
        """Count `units` more, of which `promised` are kept for a job of the queue; less than 0 for
        work that stops, and for an undo."""
        self.in_use += units
        self.promised += promised

    @property
    def unused(self) -> int:
        return max(0, self.limit - self.in_use)

    @property
    def lendable(self) -> int:
        """What others may borrow of it now."""
        return min(self.lend, self.unused)

    @property
    def borrowed(self) -> int:
        return max(0, self.in_use - self.limit)


class QuotaPool:
    """The projects' accounts of one model. Its sums are updated, never counted anew."""

    def __init__(self) -> None:
        self.projects: dict[str, QuotaAccount] = {}
        self.lendable = 0
        self.borrowed = 0
        self._borrowing: dict[str, int] = {}

    def add(self, project: str, account: QuotaAccount) -> None:
        self.projects[project] = account
        self._count(project, account)

    def max_borrowing(self, project: str) -> int:
        """How much the project may use beyond its limit in all: what other projects lend, less what
        other projects have borrowed. Nothing is lent twice."""
        own = self.projects[project]
        offered = self.lendable - own.lendable - (self.borrowed - own.borrowed)
        return min(own.borrow, max(0, offered))

    def may_allocate(self, project: str, units: int) -> bool:
        own = self.projects.get(project)
        if own is None or own.in_use + units <= own.limit:
            return True
        return own.in_use + units - own.limit <= self.max_borrowing(project)

    def charge(self, project: str, units: int) -> Callable[[], None] | None:
        """Count `units` more, or fewer if negative. Returns the undo; None without a quota here."""
        own = self.projects.get(project)
        if own is None:
            return None
        promised = max(0, units)
        self._change(project, own, units, promised)
        return lambda: self._change(project, own, -units, -promised)

    def borrowers(self, excluded_project: str = "") -> dict[str, int]:
        """Borrowed units by project, largest first."""
        others = [
            (name, units) for name, units in self._borrowing.items() if name != excluded_project
        ]
        return dict(sorted(others, key=lambda item: (-item[1], item[0])))

    def _change(self, project: str, own: QuotaAccount, units: int, promised: int) -> None:
        self.lendable -= own.lendable
        self.borrowed -= own.borrowed
        own.count(units, promised)
        self._count(project, own)

    def _count(self, project: str, own: QuotaAccount) -> None:
        self.lendable += own.lendable
        self.borrowed += own.borrowed
        if own.borrowed:
            self._borrowing[project] = own.borrowed
        else:
            self._borrowing.pop(project, None)
