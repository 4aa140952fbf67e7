"""Prices of devices, and the currency that all of them are in."""

from django.db import models
from django.db.models import Q

MAX_CURRENCY = 16


class PriceList(models.Model):
    """The one row that all prices belong to; none before the first change."""

    currency = models.CharField(max_length=MAX_CURRENCY, blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    """Goes up with each change of the currency or of a price."""

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="price_list_is_one")]

    def __str__(self) -> str:
        return f"prices in {self.currency}, version {self.version}"


class DevicePrice(models.Model):
    """What one device costs for an hour."""

    board = models.CharField(max_length=128)
    """Its key, as `Gpu.board` has it."""
    profile = models.CharField(max_length=32, blank=True, default="")
    """Of a MIG slice; empty for a whole GPU."""
    amount = models.DecimalField(max_digits=13, decimal_places=6)

    class Meta:
        ordering = ("board", "profile")
        constraints = [
            models.UniqueConstraint(fields=("board", "profile"), name="price_of_device"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="price_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.board} {self.profile}: {self.amount}"
