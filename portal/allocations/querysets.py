"""Rows of allocations by status."""

from typing import Self, TypeVar

from django.db.models import Model

from portal.database.locks import LockingQuerySet
from portal.jobs.querysets import values_of
from scheduler.core.model.states import ALLOCATION_LIVE, AllocationStatus

Row = TypeVar("Row", bound=Model, covariant=True)

LIVE_ALLOCATION_STATUSES = values_of(ALLOCATION_LIVE)


class AllocationQuerySet(LockingQuerySet[Row]):
    def live(self) -> Self:
        """Those that still keep their device from others."""
        return self.filter(status__in=LIVE_ALLOCATION_STATUSES)

    def in_use(self) -> Self:
        """Live, and not marked for release."""
        return self.filter(status__in=[AllocationStatus.RESERVED, AllocationStatus.BOUND])
