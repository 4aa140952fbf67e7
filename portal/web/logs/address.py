"""What of a job's log an address asks for, and the addresses of the views beside it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from portal.web.logs.text import UNSAFE

MOST_WORDS = 200
# A line that was found is shown with so many before it.
BEFORE = 100


@dataclass(frozen=True, slots=True)
class LogView:
    """`rank` and `attempt` None: all replicas of the last attempt. `line`: a page from there;
    `words`: what to look for, `on`: where to look on. `wrap`, `times`: how it is shown. `beside`:
    the path of the other page that shows logs: at full width, or beside the job."""

    path: str
    beside: str = ""
    rank: int | None = None
    attempt: int | None = None
    line: int | None = None
    words: str = ""
    on: str = ""
    wrap: bool = True
    times: bool = True

    @property
    def is_end(self) -> bool:
        """The last lines, which go on live."""
        return self.line is None and not self.words

    def but(self, **changes: Any) -> str:
        """The address of the same view with changes."""
        view = replace(self, **changes)
        fields = {
            "attempt": view.attempt,
            "rank": view.rank,
            "line": view.line,
            "q": view.words,
            "on": view.on,
            "wrap": None if view.wrap else "0",
            "times": None if view.times else "0",
        }
        query = urlencode(
            {name: value for name, value in fields.items() if value not in (None, "")}
        )
        return f"{view.path}?{query}" if query else view.path

    @property
    def beside_address(self) -> str:
        """The same lines on the other page."""
        return self.but(path=self.beside)

    @property
    def end_address(self) -> str:
        return self.but(line=None, words="", on="")

    @property
    def wrap_address(self) -> str:
        return self.but(wrap=not self.wrap)

    @property
    def times_address(self) -> str:
        return self.but(times=not self.times)

    @property
    def all_address(self) -> str:
        return self.but(rank=None, line=None, on="")

    def of_rank(self, rank: int) -> str:
        return self.but(rank=rank, line=None, on="")

    def of_attempt(self, number: int) -> str:
        return self.but(attempt=number, line=None, on="")

    def at_line(self, rank: int, line: int) -> str:
        """Where the line stands, with some before it."""
        return self.but(rank=rank, line=max(1, line - BEFORE), words="", on="") + f"#r{rank}-{line}"


def log_view(path: str, fields: Mapping[str, str], beside: str = "") -> LogView:
    """Of an address's query. What makes no sense is left out."""
    return LogView(
        path=path,
        beside=beside,
        rank=number(fields.get("rank", ""), 4),
        attempt=number(fields.get("attempt", ""), 9),
        line=number(fields.get("line", ""), 12),
        words=UNSAFE.sub("", fields.get("q", ""))[:MOST_WORDS],
        on=fields.get("on", "")[:32],
        wrap=fields.get("wrap") != "0",
        times=fields.get("times") != "0",
    )


def number(text: str, digits: int) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None
