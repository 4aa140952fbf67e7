"""Time zones by name, and the one that a user has chosen."""

from datetime import tzinfo
from functools import lru_cache
from itertools import groupby
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.utils import timezone

from portal.accounts.models import User

# As long as the column; the longest name of today has 32 characters.
MAX_NAME_LENGTH = 64
UTC_NAME = "UTC"


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo | None:
    """None for a name that this machine does not know."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isascii():
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """What people choose from: UTC, then the cities of every region."""
    cities = {name for name in available_timezones() if _is_city(name)}
    return (UTC_NAME, *sorted(cities))


@lru_cache(maxsize=1)
def zones_by_region() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The same under the name of their region, such as "Europe"."""
    found = groupby(zone_names(), key=lambda name: name.partition("/")[0])
    return tuple((region, tuple(names)) for region, names in found)


def user_zone(user: User) -> tzinfo:
    """For what is sent to a user: the zone of their account, else the portal's."""
    return zone_named(user.time_zone) or timezone.get_default_timezone()


def _is_city(name: str) -> bool:
    region = name.partition("/")[0]
    return region != name and region not in {"Etc", "SystemV", "US", "posix", "right"}
