"""Devices bound to replicas, and what their sensors measured meanwhile."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from portal.accounts.models import Project
from portal.allocations.querysets import AllocationQuerySet
from portal.choices import choices_from_enum, enum_check
from portal.inventory.boards import board_quota_models, quota_model_names
from portal.inventory.models import Slice
from portal.jobs.models import Replica
from scheduler.core.model.states import ALLOCATION_LIVE, AllocationStatus


class Allocation(models.Model):
    """A device given to a replica for a time. Accounting is the sum of allocations.

    The first allocation of a replica carries all of its CPU and memory.
    """

    NOUN = "allocation"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="allocations")
    slice = models.ForeignKey(
        Slice, null=True, blank=True, on_delete=models.PROTECT, related_name="allocations"
    )
    """Null at a site that keeps its devices to itself; `board` is set instead."""
    board = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)
    """The board's key, where there is no slice."""
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="allocations")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="allocations"
    )
    units = models.PositiveIntegerField()
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    used_seconds = models.PositiveBigIntegerField(default=0)
    """Whole seconds from bound to released; 0 until then."""
    status = models.CharField(
        max_length=16,
        choices=choices_from_enum(AllocationStatus),
        default=AllocationStatus.RESERVED,
        editable=False,
    )
    reserved_at = models.DateTimeField()
    bound_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)

    objects = AllocationQuerySet.as_manager()

    class Meta:
        # The table keeps the name from when the model was in portal.jobs.
        db_table = "jobs_allocation"
        ordering = ("reserved_at",)
        constraints = [
            enum_check("status", AllocationStatus, "allocation_status"),
            models.UniqueConstraint(
                fields=("slice",),
                condition=Q(status__in=[str(s) for s in sorted(ALLOCATION_LIVE)]),
                name="slice_allocated_once",
            ),
            models.CheckConstraint(
                condition=Q(slice__isnull=False) | ~Q(board=""), name="allocation_device"
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(released_at__gte=F("reserved_at")),
                name="allocation_interval",
            ),
        ]
        indexes = [models.Index(fields=("released_at",), name="allocation_released")]

    def __str__(self) -> str:
        return f"{self.slice or self.board} allocated to {self.replica}"

    @property
    def own_slice(self) -> Slice:
        """The slice, on one of Tessera's own nodes. Raises ValueError elsewhere."""
        if self.slice is None:
            raise ValueError(f"{self} has no slice: its site keeps its devices to itself")
        return self.slice

    @property
    def quota_models(self) -> frozenset[str]:
        """The values of `Quota.model` that count it."""
        if self.slice:
            return quota_model_names(self.slice.gpu)
        return board_quota_models(self.board)


class AllocationSample(models.Model):
    """The highest sensor values of an allocated device within one minute; null if not measured."""

    id = models.BigAutoField(primary_key=True)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="samples")
    minute = models.DateTimeField()
    active_percent = models.PositiveSmallIntegerField(null=True)
    memory_used_mib = models.PositiveIntegerField(null=True)
    memory_total_mib = models.PositiveIntegerField(null=True)
    temperature_c = models.SmallIntegerField(null=True)
    power_mw = models.PositiveIntegerField(null=True)
    why = models.JSONField(default=dict)
    """By column: why it was not measured, a MissingReason of agents.contract.telemetry."""

    class Meta:
        db_table = "jobs_allocationsample"
        ordering = ("allocation", "minute")
        constraints = [
            models.UniqueConstraint(fields=("allocation", "minute"), name="sample_once_a_minute")
        ]
        indexes = [models.Index(fields=("minute",), name="sample_minute")]

    def __str__(self) -> str:
        return f"{self.allocation} at {self.minute:%Y-%m-%d %H:%M}"


class AllocationHour(models.Model):
    """The highest sensor values of an allocated device within one hour, made of its minutes once
    these are old; null if not measured."""

    id = models.BigAutoField(primary_key=True)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="hours")
    hour = models.DateTimeField()
    minutes = models.PositiveSmallIntegerField()
    """In how many of its minutes the memory was measured."""
    active_percent = models.PositiveSmallIntegerField(null=True)
    memory_used_mib = models.PositiveIntegerField(null=True)
    memory_total_mib = models.PositiveIntegerField(null=True)
    temperature_c = models.SmallIntegerField(null=True)
    power_mw = models.PositiveIntegerField(null=True)
    why = models.JSONField(default=dict)
    """As of the last of its minutes."""

    class Meta:
        ordering = ("allocation", "hour")
        constraints = [
            models.UniqueConstraint(fields=("allocation", "hour"), name="sample_once_an_hour")
        ]
        indexes = [models.Index(fields=("hour",), name="sample_hour")]

    def __str__(self) -> str:
        return f"{self.allocation} at {self.hour:%Y-%m-%d %H:00}"
