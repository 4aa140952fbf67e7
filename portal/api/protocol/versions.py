"""Row versions as ETag and If-Match, so that no stale change overwrites a newer one."""

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
    description="The ETag that you read. 412 if it is stale, 428 if the header is missing",
)
IF_MATCH_OPTIONAL = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The ETag that you read: 412 if it is stale. Without it, any version matches",
)
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200],
    description="The version, for If-Match",
)


def if_match(request: Request, *, is_required: bool) -> str | None:
    """The version in If-Match, or None. Raises VersionMissing if it is required."""
    match = QUOTED.fullmatch(request.headers.get("If-Match", "").strip())
    if match is None:
        if is_required:
            raise VersionMissing
        return None
    return match[1]


@overload
def if_match_number(request: Request) -> int: ...
@overload
def if_match_number(request: Request, *, is_required: bool) -> int | None: ...
def if_match_number(request: Request, *, is_required: bool = True) -> int | None:
    """`if_match` for versions that are numbers. Raises VersionMissing."""
    version = if_match(request, is_required=is_required)
    if version is None:
        return None
    if not NUMBER.fullmatch(version):
        raise VersionMissing
    return int(version)


@contextmanager
def stale_version_shown(sent: Any, current: Callable[[], tuple[Any, int]]) -> Iterator[None]:
    """Turn a service's `version_stale` into VersionStale, with the change that was `sent` and the
    row's data and version from `current`."""
    try:
        yield
    except Refused as refused:
        if refused.code != "version_stale":
            raise
        row, version = current()
        raise VersionStale(row, f'"{version}"', sent, refused.sentence) from refused
