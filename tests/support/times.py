"""Points in time for rows and snapshots."""

from datetime import UTC, datetime, timedelta

from django.utils import timezone


def ago(**time: int) -> datetime:
    """A time before now: ago(hours=1)."""
    return timezone.now() - timedelta(**time)


def ahead(**time: int) -> datetime:
    return timezone.now() + timedelta(**time)


def at_epoch(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
