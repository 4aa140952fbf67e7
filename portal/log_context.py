"""What every line of the log names besides its message, and where lines go.

The request id is known from its middleware, the user once one was found, and a worker names its
task. All of it goes on with the work, also into threads and tasks that it starts.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from agents.contract.log_lines import line_formatter
from portal.metrics import LOG_LINES
from portal.request_id import NONE, request_id

NO_FIELDS: Mapping[str, str] = {}
_fields: ContextVar[Mapping[str, str]] = ContextVar("log_fields", default=NO_FIELDS)


def add_log_fields(**fields: str) -> Token[Mapping[str, str]]:
    """Lines of this context have these fields as well, until `reset_log_fields`."""
    return _fields.set({**_fields.get(), **fields})


def reset_log_fields(token: Token[Mapping[str, str]]) -> None:
    _fields.reset(token)


@contextmanager
def log_fields(**fields: str) -> Iterator[None]:
    token = add_log_fields(**fields)
    try:
        yield
    finally:
        reset_log_fields(token)


class LogContextFilter(logging.Filter):
    """Adds the fields to each record, but for those that it has; counts warnings and errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        own = vars(record)
        if "request_id" not in own:
            request = own.get("request")
            name = getattr(request, "request_id", None) or request_id()
            if name != NONE:
                own["request_id"] = name
        for field, value in _fields.get().items():
            own.setdefault(field, value)
        if record.levelno >= logging.WARNING:
            LOG_LINES.labels("error" if record.levelno >= logging.ERROR else "warning").inc()
        return True


class HandshakeFilter(logging.Filter):
    """Drops the server's line of each WebSocket: it has the whole address, and so a token that an
    app expects there."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith('%s - "WebSocket')


def logging_settings(chosen: str, secrets: Iterable[str]) -> dict[str, Any]:
    """LOGGING of Django, for web, worker, beat and commands: failures and refusals to standard
    error. `chosen`: the format, see `line_formatter`; `secrets`: what no line may have.

    The server and Celery configure their loggers themselves, and before: those entries undo it."""
    formatter = line_formatter(chosen, sys.stderr, secrets)
    passed_on = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {
            "context": {"()": LogContextFilter},
            "handshakes": {"()": HandshakeFilter},
        },
        "formatters": {"line": {"()": lambda: formatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "filters": ["context"],
                "formatter": "line",
            }
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            # Django's own handlers mail to nobody: without this, failures would be logged nowhere.
            "django": {**passed_on, "level": "INFO"},
            "portal": {"level": "INFO"},
            "scheduler": {"level": "INFO"},
            "uvicorn": {**passed_on, "level": "INFO"},
            "uvicorn.error": {**passed_on, "level": "INFO", "filters": ["handshakes"]},
            # Raw addresses without a request id; `portal.monitoring.requests` has a line for each.
            "uvicorn.access": {**passed_on, "level": "WARNING"},
            "celery": {**passed_on, "level": "INFO"},
            # Several lines for each task; `portal.monitoring.celery_process` has one of news.
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
        },
    }
