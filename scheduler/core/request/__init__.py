"""Job requests: one check for pages, REST and the command line.

`parse_request` reports all problems at once. `request_as_dict` and `request_as_yaml` write a
request for storage and for people.
"""

from typing import Any

from scheduler.core.request.formats import request_as_dict, request_as_yaml
from scheduler.core.request.reader import RequestReader
from scheduler.core.request.values import (
    FieldError,
    HostShares,
    InvalidRequest,
    JobKind,
    JobRequest,
    ProblemCode,
    RequestLimits,
    fixed_host_share,
)

__all__ = [
    "FieldError",
    "InvalidRequest",
    "JobKind",
    "JobRequest",
    "ProblemCode",
    "RequestLimits",
    "parse_request",
    "parse_stored_request",
    "request_as_dict",
    "request_as_yaml",
]


def parse_request(data: Any, limits: RequestLimits) -> JobRequest:
    """A checked request from what people wrote.

    Raises InvalidRequest with every problem. Nothing is guessed and nothing ignored.
    """
    reader = RequestReader(data, limits)
    return _checked(reader)


def _checked(reader: RequestReader) -> JobRequest:
    request = reader.read()
    if reader.errors or request is None:
        raise InvalidRequest(tuple(reader.errors))
    return request


def parse_stored_request(data: Any, host_share: HostShares = fixed_host_share) -> JobRequest:
    """A request that was checked when it was submitted. Today's limits and today's rules about
    combinations of fields do not apply to it."""
    limits = RequestLimits(max_time_limit_seconds=2**30, max_replicas=4_096, host_share=host_share)
    return _checked(RequestReader(data, limits, check_combinations=False))
