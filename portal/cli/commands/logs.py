"""logs: of one replica as they are, of several with their rank before each line."""

import codecs
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import job_exit_code
from portal.cli.output import is_terminal, print_message
from portal.cli.progress import fetch_job, has_started, is_over, wait_for_job
from portal.cli.text import single_line, strip_controls

# What REST gives at once; a line of a log that is looked for from behind is thought this long.
MOST_BYTES, LINE_BYTES = 1 << 18, 256
LOOK_EVERY = 1.0


@dataclass
class ReplicaLog:
    """One replica's log and how far it was read."""

    rank: int
    offset: int = 0
    rest: str = ""
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )


def add_to(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="until the job is over")] = False,
    rank: Annotated[
        list[int] | None, typer.Option("--rank", "-r", min=0, help="of which replica; repeatable")
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="of every replica")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="only the last lines")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="by default the newest")] = None,
    raw: Annotated[bool, typer.Option(help="with the escapes that a terminal obeys")] = False,
) -> None:
    """Print what a job wrote. Off a terminal, one replica's log comes byte by byte as it is."""
    at_hand = cli_context(context)
    row = fetch_job(at_hand.client, job)
    if not row["attempts"]:
        row = _until_started(at_hand, row, follow)
    number = attempt or row["attempts"][-1]["number"]
    ranks = list(range(row["replicas"])) if every else (rank or [0])
    reader = LogPrinter(at_hand, str(row["id"]), number, is_prefixed=len(ranks) > 1, is_raw=raw)
    tails = [ReplicaLog(one) for one in ranks]
    for one in tails:
        reader.start(one, tail)
    try:
        if follow:
            row = reader.follow(tails, is_fixed=attempt is not None)
    except KeyboardInterrupt:
        print_message(f"\nIt goes on. Come back with: tessera logs -f {single_line(row['id'])}")
        return
    finally:
        for one in tails:
            reader.finish(one)
    if follow:
        print_message(f"{single_line(row['id'])} {row['status']}, code {job_exit_code(row)}")


def _until_started(at_hand: CliContext, row: dict[str, Any], follow: bool) -> dict[str, Any]:
    if follow and not is_over(row):
        row = wait_for_job(at_hand, row, until=has_started)
    if not row["attempts"]:
        sentence = f"{row['id']} is {row['status']} and never started: there is no log"
        raise CommandFailed("no_log", sentence, f"tessera why {row['id']}", ExitCode.NOT_FOUND)
    return row


@dataclass
class LogPrinter:
    """Reads logs of one attempt, and writes them."""

    at_hand: CliContext
    job: str
    attempt: int
    is_prefixed: bool
    is_raw: bool

    def start(self, tail: ReplicaLog, lines: int | None) -> None:
        """What there is now: all of it, or the last lines."""
        if lines is not None:
            self._begin_at_the_end(tail, lines)
        while self.print_next(tail):
            pass

    def follow(self, tails: list[ReplicaLog], *, is_fixed: bool) -> dict[str, Any]:
        """The job once it is over, its logs written as they come. A new attempt is gone on with."""
        while True:
            row = fetch_job(self.at_hand.client, self.job)
            over = is_over(row)
            newest = row["attempts"][-1]["number"]
            for tail in tails:
                while self.print_next(tail):
                    pass
            if newest != self.attempt and not is_fixed:
                self._go_on_with(newest, tails)
            elif over:
                return row
            else:
                self.at_hand.pause(LOOK_EVERY)

    def print_next(self, tail: ReplicaLog) -> bool:
        """Write the next portion; whether there may be another one."""
        data, following = self._read(tail.rank, tail.offset, MOST_BYTES)
        if not data:
            return False
        tail.offset = following
        self._write(tail, data)
        return len(data) == MOST_BYTES

    def finish(self, tail: ReplicaLog) -> None:
        """A last line without an end still shows."""
        left = tail.rest + tail.decoder.decode(b"", final=True)
        tail.rest = ""
        if left:
            self._line(tail.rank, left, "\n")

    def _go_on_with(self, attempt: int, tails: list[ReplicaLog]) -> None:
        print_message(f"Attempt {attempt}:")
        self.attempt = attempt
        for tail in tails:
            self.finish(tail)
            tail.offset = 0
            tail.decoder.reset()

    def _read(self, rank: int, offset: int, limit: int) -> tuple[bytes, int]:
        params = {"rank": rank, "offset": offset, "limit": limit, "attempt": self.attempt}
        path = api_path("jobs", self.job, "logs")
        answer = self.at_hand.client.call("GET", path, params=params, is_repeatable=True)
        return answer.content, int(answer.headers.get("X-Next-Offset", offset))

    def _begin_at_the_end(self, tail: ReplicaLog, lines: int) -> None:
        """Set the offset where the last lines begin, looking further back until they are found."""
        size = self._size(tail.rank)
        back = max(1, lines) * LINE_BYTES
        while True:
            start = max(0, size - back)
            data, _ = self._all(tail.rank, start, size)
            # A line counts whole: its end is that of the one before it.
            ends = [i + 1 for i, byte in enumerate(data[:-1]) if byte == 0x0A]
            if lines and len(ends) < lines and start:
                back *= 8
                continue
            begin = 0 if len(ends) < lines else (ends[-lines] if lines else len(data))
            tail.offset = start + begin
            return

    def _size(self, rank: int) -> int:
        params = {"rank": rank, "offset": 0, "limit": 1, "attempt": self.attempt}
        path = api_path("jobs", self.job, "logs")
        answer = self.at_hand.client.call("GET", path, params=params, is_repeatable=True)
        return int(answer.headers.get("X-Log-Bytes", 0))

    def _all(self, rank: int, start: int, end: int) -> tuple[bytes, int]:
        found = b""
        while start < end:
            data, following = self._read(rank, start, min(MOST_BYTES, end - start))
            if not data:
                break
            found, start = found + data, following
        return found, start

    def _write(self, tail: ReplicaLog, data: bytes) -> None:
        if not self.is_prefixed and (self.is_raw or not is_terminal(sys.stdout)):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        lines = (tail.rest + tail.decoder.decode(data)).split("\n")
        tail.rest = lines.pop()
        for line in lines:
            self._line(tail.rank, line, "\n")

    def _line(self, rank: int, line: str, end: str) -> None:
        shown = line if self.is_raw else strip_controls(line.removesuffix("\r"))
        for part in shown.split("\n"):
            sys.stdout.write(f"[{rank}] {part}{end}" if self.is_prefixed else f"{part}{end}")
        sys.stdout.flush()
