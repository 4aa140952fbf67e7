"""What people set of a service, checked; and the request of a copy, made of that of its service."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from scheduler.core.request import (
    FieldError,
    InvalidRequest,
    JobKind,
    JobRequest,
    ProblemCode,
    RequestLimits,
    parse_request,
)
from scheduler.core.request.apps import APP_NAME, PORTS

MAX_COPIES = 64
MAX_CALLS = 10_000
MAX_SECONDS = 86_400
MIN_START_SECONDS = 10
MAX_PATH_LENGTH = 200
MAX_PERCENT = 100
# Printable ASCII without spaces: it is written into the first line of a request as it is.
_PATH = re.compile(rf"/[!-~]{{0,{MAX_PATH_LENGTH - 1}}}")
# Of copies that are given one: below the ports that Linux gives out by itself.
GIVEN_PORTS = range(20_000, 30_000)
PORT_VARIABLE = "PORT"
# What a job that is started again and again cannot have.
ONCE_ONLY = ("array", "sweep", "begin", "after")


@dataclass(frozen=True, slots=True)
class ServiceValues:
    """How a service is run. The request of its copies is beside it."""

    min_copies: int = 1
    max_copies: int = 1
    calls_per_copy: int = 8
    cool_down_seconds: int = 300
    start_seconds: int = 900
    port: int = 0
    health_path: str = "/"


@dataclass(frozen=True, slots=True)
class CanaryValues:
    """The service that gets some of the calls of another one, and how many of 100."""

    label: str = ""
    """Such as S-9; empty: none does."""
    percent: int = 0


def require_percent(percent: int) -> None:
    """Raises Refused(limit_invalid)."""
    if not 0 <= percent <= MAX_PERCENT:
        sentence = Message("Write 0 to %(most)s percent", most=MAX_PERCENT)
        raise Refused(ErrorCode.LIMIT_INVALID, sentence, "canary_percent")


def require_values(values: ServiceValues) -> None:
    """Raises Refused(limit_invalid, path_invalid)."""
    if not 0 <= values.min_copies <= values.max_copies or not 1 <= values.max_copies <= MAX_COPIES:
        sentence = Message(
            "Write 0 to %(most)s copies; the minimum may not exceed the maximum", most=MAX_COPIES
        )
        raise Refused(ErrorCode.LIMIT_INVALID, sentence, "min_copies")
    if not 1 <= values.calls_per_copy <= MAX_CALLS:
        sentence = Message("Write 1 to %(most)s calls at once for a copy", most=MAX_CALLS)
        raise Refused(ErrorCode.LIMIT_INVALID, sentence, "calls_per_copy")
    _require_seconds("cool_down_seconds", values.cool_down_seconds, 0)
    _require_seconds("start_seconds", values.start_seconds, MIN_START_SECONDS)
    if values.port and values.port not in PORTS:
        problem = "Write the port on which the program listens, or 0 if it reads PORT"
        raise Refused(ErrorCode.LIMIT_INVALID, problem, "port")
    if not _PATH.fullmatch(values.health_path):
        sentence = Message(
            "Write the path that answers once the program is ready, such as /health: at most "
            "%(most)s characters without spaces",
            most=MAX_PATH_LENGTH,
        )
        raise Refused(ErrorCode.PATH_INVALID, sentence, "health_path")


def require_name(name: str) -> None:
    """Raises Refused(name_invalid)."""
    if not re.fullmatch(APP_NAME, name):
        sentence = (
            "A service has a name of at most 20 small letters, digits and single hyphens that "
            "begins with a letter, such as llm"
        )
        raise Refused(ErrorCode.NAME_INVALID, sentence, "name")


def copy_request(
    body: Any, *, name: str, port: int, project: str = "", limits: RequestLimits
) -> JobRequest:
    """The request of one copy, which listens on `port`.

    `body`: what people wrote, or the stored request of the service. `project`: the service's, which
    a change of its request keeps. Raises InvalidRequest.
    """
    if not isinstance(body, Mapping):
        return parse_request(body, limits)
    fields = dict(body)
    # A key of YAML may be no text: it is refused with the other unknown ones.
    once = [each for each in fields if str(each).partition("_")[0] in ONCE_ONLY and fields[each]]
    if once:
        sentence = Message("a service is started again and again: leave this out")
        raise InvalidRequest(
            tuple(FieldError(each, ProblemCode.COMBINATION, sentence) for each in once)
        )
    fields |= {"name": name, "kind": str(JobKind.SERVICE), "idle_stop": False}
    if project:
        fields["project"] = project
    fields["apps"] = [f"{name}:{port}", *_other_apps(fields.get("apps"), name)]
    env = fields.get("env")
    if isinstance(env, Mapping) or not env:
        fields["env"] = {PORT_VARIABLE: str(port)} | dict(env or {})
    return parse_request(fields, limits)


def unused_port(taken: set[int], start: int) -> int:
    """A port that none of these copies has; `start` makes those of several services differ."""
    size = len(GIVEN_PORTS)
    ports = (GIVEN_PORTS[(start + step) % size] for step in range(size))
    return next(port for port in ports if port not in taken)


def _require_seconds(field: str, seconds: int, least: int) -> None:
    if not least <= seconds <= MAX_SECONDS:
        sentence = Message("Write %(least)s to %(most)s seconds", least=least, most=MAX_SECONDS)
        raise Refused(ErrorCode.LIMIT_INVALID, sentence, field)


def _other_apps(apps: Any, name: str) -> list[Any]:
    """What is no list is refused when it is read as the request."""
    if not isinstance(apps, list):
        return [] if apps is None else [apps]
    return [each for each in apps if not str(each).startswith(f"{name}:")]
