"""Versions of rows as ETag and If-Match: no stale change overwrites another."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, overload

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from portal.api.protocol.problems import VersionMissing, VersionStale
from portal.errors import Refused

QUOTED = re.compile(r'"([!#-~]{1,64})"')
NUMBER = re.compile(r"[0-9]{1,9}")
IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="the ETag that was read; 412 where it is stale, 428 where it is missing",
)
IF_MATCH_OPTIONAL = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="the ETag that was read: 412 where it is stale; without it, whatever is there",
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


@overload
def number_seen(request: Request) -> int: ...
@overload
def number_seen(request: Request, *, is_needed: bool) -> int | None: ...
def number_seen(request: Request, *, is_needed: bool = True) -> int | None:
    """The same, where versions are numbers. Raises VersionMissing."""
    seen = version_seen(request, is_needed=is_needed)
    if seen is None:
        return None
    if not NUMBER.fullmatch(seen):
        raise VersionMissing
    return int(seen)


@contextmanager
def both_versions(sent: Any, now: Callable[[], tuple[Any, int]]) -> Iterator[None]:
    """Where a service finds the version stale, its refusal shows what was sent for and, from `now`,
    the row as it is with its version. Raises VersionStale."""
    try:
        yield
    except Refused as refused:
        if refused.code != "version_stale":
            raise
        current, version = now()
        raise VersionStale(current, f'"{version}"', sent, refused.sentence) from refused
