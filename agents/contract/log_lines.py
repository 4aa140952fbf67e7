"""The form of a log line, the same in portal and agents: one search over all logs follows a job.

As JSON, one object a line: `at` (UTC), `level`, `logger`, `event` (the message), then the fields of
the call: `request_id`, `job`, `node`, `user`, `task`, and what the line itself adds. As text, for
people at a terminal, with the same fields at the end. Secrets are replaced in both.
"""

import json
import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

JSON, TEXT = "json", "text"
HIDDEN = "***"
# Shorter ones are also parts of other words.
MIN_SECRET = 8
# Tokens as they are sent, tokens of users, and passwords in URLs, whoever wrote them into a line.
_SHAPES = (
    r"(?i:\b(?:agent|bearer|token|basic)\s+)(?=\S*\d)(?P<sent>[\w.~+/=:-]{16,})",
    r"\b(?P<own>ts[ra]_\w+)",
    r"://[^/\s:@\"']*:(?P<password>[^/\s@\"']+)@",
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
# Objects that libraries attach to records for handlers of their own.
_OBJECTS = frozenset({"request", "color_message", "server_time", "data", "websocket"})


class Redaction(Protocol):
    def __call__(self, text: str) -> str: ...


def redaction(secrets: Iterable[str]) -> Redaction:
    """A function that hides `secrets`, and all that has the shape of one, in a text."""
    literal = {s for s in secrets if len(s) >= MIN_SECRET}
    # As JSON writes them, too.
    literal |= {json.dumps(s, ensure_ascii=False)[1:-1] for s in literal}
    known = [f"(?P<known>{'|'.join(map(re.escape, sorted(literal, key=len, reverse=True)))})"]
    pattern = re.compile("|".join([*(known if literal else []), *_SHAPES]))

    def hide(match: re.Match[str]) -> str:
        whole, kind = match.group(), match.lastgroup or ""
        return whole.replace(match[kind], HIDDEN)

    return lambda text: pattern.sub(hide, text)


def password_of(url: str) -> list[str]:
    """The password in a URL, as it is written and as it is meant; none without one."""
    try:
        written = urlsplit(url).password or ""
    except ValueError:
        return []
    return [each for each in {written, unquote(written)} if each]


class JsonLines(logging.Formatter):
    """Each record as one JSON object on one line."""

    def __init__(self, hide: Redaction) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **extra_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return self._hide(json.dumps(line, default=str, ensure_ascii=False))


class TextLines(logging.Formatter):
    """Each record as a line for people, with the trace of an exception below it."""

    def __init__(self, hide: Redaction) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        fields = extra_fields(record)
        request = fields.pop("request_id", "-")
        words = "".join(f" {name}={_plain(value)}" for name, value in fields.items())
        head = f"{_at(record)} {record.levelname} {record.name} [{request}]"
        text = f"{head} {record.getMessage()}{words}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return self._hide(text)


def line_formatter(
    chosen: str, stream: IO[str], secrets: Iterable[str] = ()
) -> JsonLines | TextLines:
    """`chosen`: json, text, or "" for text on a terminal and JSON elsewhere."""
    is_text = chosen == TEXT or (not chosen and stream.isatty())
    hide = redaction(secrets)
    return TextLines(hide) if is_text else JsonLines(hide)


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the call and its context added to the record."""
    values: Mapping[str, Any] = vars(record)
    return {k: v for k, v in values.items() if k not in _STANDARD and k not in _OBJECTS}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _at(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"
