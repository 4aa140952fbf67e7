"""Versions of rows as ETag and If-Match: no stale change overwrites another."""

import re

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from portal.api.problem import VersionMissing

QUOTED = re.compile(r'"([!#-~]{1,64})"')
NUMBER = re.compile(r"[0-9]{1,9}")
IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="the ETag that was read; 412 where it is stale, 428 where it is missing",
)
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200],
    description="the version, for If-Match",
)


def version_seen(request: Request, *, is_needed: bool) -> str | None:
    """The version in If-Match. Raises VersionMissing where it is needed and there is none."""
    match = QUOTED.fullmatch(request.headers.get("If-Match", "").strip())
    if match is None:
        if is_needed:
            raise VersionMissing
        return None
    return match[1]


def number_seen(request: Request) -> int:
    """The same, where versions are numbers. Raises VersionMissing."""
    seen = version_seen(request, is_needed=True) or ""
    if not NUMBER.fullmatch(seen):
        raise VersionMissing
    return int(seen)
