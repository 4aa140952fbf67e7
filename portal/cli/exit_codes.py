"""Exit codes, and the failure of a command with what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """The closed list. `submit --wait` exits with the job's own code instead."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    CONFLICT = 5
    TIMEOUT = 6


@dataclass
class CommandFailed(Exception):
    """A stable code, a sentence, the invalid fields, and the next command to try."""

    code: str
    sentence: str
    next_command: str = ""
    exit_code: ExitCode = ExitCode.FAILURE
    fields: tuple[tuple[str, str], ...] = ()
    # Fields of the request with corrected values.
    suggestion: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"


# Refused with the HTTP status of bad input, although the input is valid: a limit is exceeded.
OVER_A_LIMIT = frozenset(
    (
        "approval",
        "budget",
        "over_project_limit",
        "over_time_limit",
        "pending_limit",
        "quota_project",
        "quota_user",
        "scope_forbidden",
        "scope_missing",
    )
)
NEVER_RUNS = "impossible"
EXIT_OF_STATUS = {
    400: ExitCode.USAGE,
    401: ExitCode.DENIED,
    403: ExitCode.DENIED,
    404: ExitCode.NOT_FOUND,
    408: ExitCode.TIMEOUT,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    413: ExitCode.USAGE,
    415: ExitCode.USAGE,
    422: ExitCode.CONFLICT,
    428: ExitCode.CONFLICT,
    429: ExitCode.DENIED,
    504: ExitCode.TIMEOUT,
}


def exit_code_for(status: int, code: str) -> ExitCode:
    """The exit code for a refusal by REST."""
    if code in OVER_A_LIMIT:
        return ExitCode.DENIED
    if code == NEVER_RUNS:
        return ExitCode.FAILURE
    return EXIT_OF_STATUS.get(status, ExitCode.FAILURE)


def failure_from_problem(status: int, problem: Mapping[str, Any], hint: str = "") -> CommandFailed:
    """A problem (RFC 9457) as a failure. `hint`: the next command, if the problem implies none."""
    code = str(problem.get("code") or f"http_{status}")
    sentence = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
    if status >= 500 and (name := problem.get("request_id")):
        sentence += f" (request {name})"
    listed = problem.get("errors")
    errors = [e for e in (listed if isinstance(listed, list) else []) if isinstance(e, Mapping)]
    fields = tuple((str(e.get("field", "")), str(e.get("message", ""))) for e in errors)
    suggestion: dict[str, Any] = {}
    for error in errors:
        changes = error.get("suggestion")
        suggestion |= changes if isinstance(changes, Mapping) else {}
    next_command, exit_code = _next(status, code) or hint, exit_code_for(status, code)
    return CommandFailed(code, sentence, next_command, exit_code, fields, suggestion)


def _next(status: int, code: str) -> str:
    match (status, code):
        case (401, _):
            return "tessera login"
        case (403, "scope_missing"):
            return "tessera login, with a token of a wider scope from the Account page"
        case (_, "project_unknown"):
            return "tessera whoami"
        case (_, "image_not_allowed" | "impossible"):
            return "tessera offers"
        case (_, "quota_user" | "quota_project" | "budget"):
            return "tessera quota"
        case (_, "pending_limit"):
            return "tessera ps"
        case (429, _):
            return "the same command in a minute"
        case _:
            return ""
