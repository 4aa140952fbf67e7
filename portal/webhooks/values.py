"""Statuses and retry delays of deliveries. Pure."""

from datetime import timedelta
from enum import StrEnum


class DeliveryStatus(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


# The delay after each failed attempt. After the last one the delivery is given up.
RETRY_DELAYS = (
    timedelta(seconds=10),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=6),
)


def retry_delay(tries: int) -> timedelta | None:
    """The delay after this many failed attempts; None to give up."""
    return RETRY_DELAYS[tries - 1] if tries <= len(RETRY_DELAYS) else None
