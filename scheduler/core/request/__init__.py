"""The one check of a job request. The page, REST, the CLI and agents read requests through it.

`parse_request` finds every problem at once. `request_as_dict` and `request_as_yaml` write the same
request for storage and for people.
"""

from typing import Any

from scheduler.core.request.formats import request_as_dict, request_as_yaml
from scheduler.core.request.reader import Reader
from scheduler.core.request.values import (
    FieldError,
    JobRequest,
    Kind,
    Launcher,
    Problem,
    RequestLimits,
    RequestRefused,
)

__all__ = [
    "FieldError",
    "JobRequest",
    "Kind",
    "Launcher",
    "Problem",
    "RequestLimits",
    "RequestRefused",
    "parse_request",
    "parse_stored",
    "request_as_dict",
    "request_as_yaml",
]


def parse_request(data: Any, limits: RequestLimits) -> JobRequest:
    """A request as people write it (product.md) as a checked value.

    Raises RequestRefused with every problem found; nothing is guessed and nothing ignored.
    """
    reader = Reader(data, limits)
    return _checked(reader)


def _checked(reader: Reader) -> JobRequest:
    request = reader.read()
    if reader.errors or request is None:
        raise RequestRefused(tuple(reader.errors))
    return request


def parse_stored(data: Any) -> JobRequest:
    """A request that was checked when it was submitted; today's limits, and today's rules of what
    goes together, do not apply to it."""
    limits = RequestLimits(max_time_limit_seconds=2**30, max_replicas=4_096)
    return _checked(Reader(data, limits, of_today=False))
