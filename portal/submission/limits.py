"""The limits of this portal's settings that every job request is checked against."""

from django.conf import settings

from scheduler.core.request import RequestLimits


def request_limits() -> RequestLimits:
    """Time limits, the largest gang and the allowed images, from TESSERA_* settings."""
    platform = settings.PLATFORM
    return RequestLimits(
        default_time_limit_seconds=platform.default_time_limit_seconds,
        max_time_limit_seconds=platform.max_time_limit_seconds,
        max_replicas=platform.max_replicas,
        image_allow=tuple(p.strip() for p in platform.image_allow.split(",") if p.strip()),
    )
