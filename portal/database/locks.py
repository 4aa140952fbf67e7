"""Row locks in one order, so that transactions cannot deadlock.

The order is JobService, Quota, Node, Gpu, Slice, Job, JobArray, Replica, Allocation; within a
model, by primary key. Lock the rows of each model in one call to `lock_rows`. On SQLite a
transaction is the only writer from its BEGIN (IMMEDIATE), and the clause is left out.
"""

from typing import Any, Self, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model, covariant=True)


class LockingQuerySet(QuerySet[Row, Row]):
    def lock_rows(self) -> list[Row]:
        """The rows by primary key, locked until the transaction ends."""
        return list(self.locking())

    def locking(self) -> Self:
        """The same, not asked yet: for a `KeptSelect`.

        `no_key` lets others insert rows that refer to a locked one.
        """
        return self.order_by("pk").select_for_update(no_key=True, of=("self",))

    def lock_keys(self, *, skip_locked: bool = False) -> list[Any]:
        """The primary keys of the rows, locked in the same way, for callers that read nothing else
        of them. `skip_locked`: leave out rows that another transaction has locked."""
        rows = self.order_by("pk").select_for_update(no_key=True, skip_locked=skip_locked)
        return list(rows.values_list("pk", flat=True))
