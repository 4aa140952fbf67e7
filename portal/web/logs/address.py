"""The part of a job's log that an address names, and the addresses of neighbouring parts. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from portal.web.logs.text import UNSAFE

MAX_SEARCH_LENGTH = 200
# Lines shown before a search hit.
CONTEXT_LINES = 100


@dataclass(frozen=True, slots=True)
class LogView:
    """Without a `line` or a `search`: the end of the log."""

    path: str
    other_path: str = ""
    """The other page that shows logs: at full width, or beside the job."""
    rank: int | None = None
    """None: all replicas."""
    attempt: int | None = None
    """None: the last one."""
    line: int | None = None
    """The first line of the page."""
    search: str = ""
    search_from: str = ""
    """Where the search continues, as `rank-offset`."""
    wrap: bool = True
    times: bool = True
    """Whether each line shows its time."""

    @property
    def is_end(self) -> bool:
        """The last lines, which continue live."""
        return self.line is None and not self.search

    def address_with(self, **changes: Any) -> str:
        """The same view with these fields changed."""
        view = replace(self, **changes)
        fields = {
            "attempt": view.attempt,
            "rank": view.rank,
            "line": view.line,
            "q": view.search,
            "on": view.search_from,
            "wrap": None if view.wrap else "0",
            "times": None if view.times else "0",
        }
        query = urlencode(
            {name: value for name, value in fields.items() if value not in (None, "")}
        )
        return f"{view.path}?{query}" if query else view.path

    @property
    def other_address(self) -> str:
        """The same lines on the other page."""
        return self.address_with(path=self.other_path)

    @property
    def end_address(self) -> str:
        return self.address_with(line=None, search="", search_from="")

    @property
    def wrap_address(self) -> str:
        return self.address_with(wrap=not self.wrap)

    @property
    def times_address(self) -> str:
        return self.address_with(times=not self.times)

    @property
    def all_address(self) -> str:
        return self.address_with(rank=None, line=None, search_from="")

    def rank_address(self, rank: int) -> str:
        return self.address_with(rank=rank, line=None, search_from="")

    def attempt_address(self, number: int) -> str:
        return self.address_with(attempt=number, line=None, search_from="")

    def line_address(self, rank: int, line: int) -> str:
        """The page that shows this line in its context."""
        return (
            self.address_with(
                rank=rank, line=max(1, line - CONTEXT_LINES), search="", search_from=""
            )
            + f"#r{rank}-{line}"
        )


def log_view(path: str, fields: Mapping[str, str], other_path: str = "") -> LogView:
    """The view that a query string names; invalid fields are ignored."""
    return LogView(
        path=path,
        other_path=other_path,
        rank=parse_number(fields.get("rank", ""), 4),
        attempt=parse_number(fields.get("attempt", ""), 9),
        line=parse_number(fields.get("line", ""), 12),
        search=UNSAFE.sub("", fields.get("q", ""))[:MAX_SEARCH_LENGTH],
        search_from=fields.get("on", "")[:32],
        wrap=fields.get("wrap") != "0",
        times=fields.get("times") != "0",
    )


def parse_number(text: str, digits: int) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None
