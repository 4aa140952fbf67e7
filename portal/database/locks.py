"""Row locks in one order, so that no two transactions wait for each other.

Quota < Node < Gpu < Slice < Job < Replica < Allocation, by primary key inside a kind. Take what you
need in one call to `locked` per kind, in that order. On SQLite a transaction is the only writer
from its BEGIN (IMMEDIATE), and the clause is left out.
"""

from typing import TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)

ORDER = ("quota", "node", "gpu", "slice", "job", "replica", "allocation")


def lock_rows(rows: QuerySet[Row]) -> list[Row]:
    """The rows, by primary key, locked until the transaction ends.

    `no_key`: children may still be inserted that point at a locked row.
    """
    return list(rows.order_by("pk").select_for_update(no_key=True, of=("self",)))
