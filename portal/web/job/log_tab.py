"""A job's log as its page shows it: lines, the links around them, and where the stream goes on."""

from collections.abc import Sequence
from dataclasses import dataclass

from portal.job_logs.storage import LogRemoved, open_logs
from portal.jobs.models import Attempt, Replica
from portal.storage.errors import StoreError
from portal.web.logs.address import LogView
from portal.web.logs.cursor import Cursor
from portal.web.logs.lines import (
    MAX_REPLICAS,
    PAGE_LINES,
    LogLine,
    line_count,
    log_page,
    search_logs,
    tail,
)
from portal.web.wording.messages import refusal_text


@dataclass(frozen=True, slots=True)
class JobLog:
    """Addresses are empty where there is nothing to link to."""

    view: LogView
    attempt: Attempt | None
    attempts: Sequence[Attempt]
    replicas: Sequence[Replica]
    """All replicas of the attempt."""
    shown_replicas: Sequence[Replica]
    lines: Sequence[LogLine]
    total: int
    """Lines of the shown replicas."""
    size: int
    """Bytes of the shown replicas."""
    cursor: Cursor
    older: str = ""
    newer: str = ""
    next_hits: str = ""
    notice: str = ""
    """Why lines are missing here; empty if none are."""

    @property
    def linked_lines(self) -> list[tuple[LogLine, str]]:
        """The lines; a search hit has the address that shows it in its context."""
        view = self.view
        return [
            (line, view.line_address(line.rank, line.number) if view.search else "")
            for line in self.lines
        ]

    @property
    def rank_links(self) -> list[tuple[int, str]]:
        return [(r.rank, self.view.rank_address(r.rank)) for r in self.replicas]

    @property
    def attempt_links(self) -> list[tuple[int, str]]:
        return [(a.number, self.view.attempt_address(a.number)) for a in self.attempts]

    @property
    def raw_replica(self) -> Replica | None:
        """The replica whose raw log is offered, if only one is shown."""
        return self.shown_replicas[0] if len(self.shown_replicas) == 1 else None

    @property
    def omitted_replicas(self) -> int:
        """How many replicas "all" does not show."""
        return len(self.replicas) - len(self.shown_replicas) if self.view.rank is None else 0

    @property
    def is_last_attempt(self) -> bool:
        return not self.attempts or self.attempt is self.attempts[-1]


@dataclass(frozen=True, slots=True)
class ShownLines:
    """The lines that were read, and what follows from them."""

    lines: Sequence[LogLine]
    total: int
    offsets: dict[int, int]
    older: str = ""
    newer: str = ""
    next_hits: str = ""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last lines of some logs."""

    lines: Sequence[LogLine]
    notice: str = ""
    """Why lines are missing here; empty if none are."""


def log_end(replicas: Sequence[Replica], max_lines: int) -> LogEnd:
    """The last lines of as many replicas as a page shows together."""
    shown, notice = _kept(replicas[:MAX_REPLICAS])
    try:
        open_logs(shown)
        lines, _ = tail(shown, max_lines)
    except StoreError as error:
        return LogEnd([], refusal_text(error))
    return LogEnd(lines, notice)


def job_log(view: LogView, attempts: Sequence[Attempt], *, last_event: int) -> JobLog:
    """Reads a bounded part of the log, whatever its size. `last_event`: the id of the newest audit
    event that the page shows."""
    attempt = shown_attempt(view, attempts)
    replicas = list(attempt.replicas.all()) if attempt else []
    shown, notice = _kept(shown_replicas(view, replicas))
    try:
        lines = _read_lines(view, shown)
    except StoreError as error:
        lines, notice = ShownLines([], 0, {}), refusal_text(error)
    return JobLog(
        view=view,
        attempt=attempt,
        attempts=attempts,
        replicas=replicas,
        shown_replicas=shown,
        lines=lines.lines,
        total=lines.total,
        size=sum(replica.log_bytes for replica in shown),
        cursor=Cursor(last_event, attempt.number if attempt else 0, lines.offsets),
        older=lines.older,
        newer=lines.newer,
        next_hits=lines.next_hits,
        notice=notice,
    )


def _kept(replicas: Sequence[Replica]) -> tuple[list[Replica], str]:
    """Those whose logs are kept, and a notice if retention has removed others."""
    kept = [replica for replica in replicas if replica.log_removed_at is None]
    removed = [replica for replica in replicas if replica.log_removed_at is not None]
    return kept, refusal_text(LogRemoved(removed[0])) if removed else ""


def _read_lines(view: LogView, shown: Sequence[Replica]) -> ShownLines:
    lines: Sequence[LogLine]
    offsets: dict[int, int] = {}
    older = newer = next_hits = ""
    open_logs(shown)
    total = line_count(shown)
    if view.search:
        hits = search_logs(shown, view.search, view.search_from)
        lines = hits.lines
        if hits.next_position:
            next_hits = view.address_with(search_from=hits.next_position)
    elif view.line is not None and len(shown) == 1:
        number = max(1, min(view.line, total))
        lines = log_page(shown[0], number)
        older = view.address_with(line=max(1, number - PAGE_LINES)) if number > 1 else ""
        last = lines[-1].number if lines else number
        newer = view.address_with(line=last + 1) if last < total else ""
    else:
        lines, offsets = tail(shown)
        if len(shown) == 1 and lines and lines[0].number > 1:
            older = view.address_with(rank=shown[0].rank, line=max(1, lines[0].number - PAGE_LINES))
    return ShownLines(lines, total, offsets, older, newer, next_hits)


def log_bar(view: LogView, attempts: Sequence[Attempt], notice: str = "") -> JobLog:
    """The links above the lines, without the lines."""
    attempt = shown_attempt(view, attempts)
    replicas = list(attempt.replicas.all()) if attempt else []
    shown = shown_replicas(view, replicas)
    return JobLog(view, attempt, attempts, replicas, shown, [], 0, 0, Cursor(), notice=notice)


def shown_attempt(view: LogView, attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that the address names, or the last one."""
    named = [attempt for attempt in attempts if attempt.number == view.attempt]
    return named[0] if named else attempts[-1] if attempts else None


def shown_replicas(view: LogView, replicas: Sequence[Replica]) -> list[Replica]:
    """The replica that the address names, or as many as a page shows together."""
    if view.rank is None:
        return list(replicas[:MAX_REPLICAS])
    return [replica for replica in replicas if replica.rank == view.rank]
