"""The logs command: one replica's log as it is; several with the rank before each line, one after
the other or as one by time."""

import codecs
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.commands.merged_log import MergedLog, print_log_line
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import job_exit_code
from portal.cli.output import is_terminal, print_message
from portal.cli.progress import fetch_job, has_started, is_over, wait_for_job
from portal.cli.text import single_line

# The most that REST returns at once, and the assumed length of a line when searching backwards.
MAX_BYTES, LINE_BYTES = 1 << 18, 256
POLL_SECONDS = 1.0


@dataclass
class ReplicaLog:
    """One replica's log and how far it has been read."""

    rank: int
    offset: int = 0
    # A line whose end has not been read yet.
    partial_line: str = ""
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )


def add_to(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="follow until the job ends")
    ] = False,
    rank: Annotated[
        list[int] | None, typer.Option("--rank", "-r", min=0, help="rank of a replica; repeatable")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="all replicas, one after the other")
    ] = False,
    all_ranks: Annotated[
        bool, typer.Option("--all-ranks", help="all replicas as one log, by time")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="only this many last lines")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="default: the newest")] = None,
    raw: Annotated[bool, typer.Option(help="keep terminal escape sequences")] = False,
) -> None:
    """Print a job's log. In a file or a pipe, the log of one replica is unchanged."""
    cli = cli_context(context)
    if all_ranks and (rank or every):
        sentence = "--all-ranks shows all replicas: leave out --rank and --all"
        raise CommandFailed("usage", sentence, f"tessera logs {job} --all-ranks", ExitCode.USAGE)
    row = fetch_job(cli.client, job)
    if not row["attempts"]:
        row = _until_started(cli, row, follow)
    newest = row["attempts"][-1]["number"]
    if all_ranks:
        merged = MergedLog(cli, str(row["id"]), attempt or newest, is_raw=raw)
        _print_merged(merged, tail, follow=follow, is_fixed=attempt is not None)
        return
    ranks = _ranks(row, attempt or newest) if every else (rank or [0])
    printer = LogPrinter(
        cli, str(row["id"]), attempt or newest, is_prefixed=len(ranks) > 1, is_raw=raw
    )
    replica_logs = [ReplicaLog(number) for number in ranks]
    for log in replica_logs:
        printer.start(log, tail)
    try:
        if follow:
            row = printer.follow(replica_logs, is_fixed=attempt is not None)
    except KeyboardInterrupt:
        _print_way_back(row["id"])
        return
    finally:
        for log in replica_logs:
            printer.finish(log)
    if follow:
        _print_end(row)


def _print_merged(log: MergedLog, tail: int | None, *, follow: bool, is_fixed: bool) -> None:
    try:
        log.print_present(tail)
        if follow:
            _print_end(log.follow(is_fixed=is_fixed, pause_seconds=POLL_SECONDS))
    except KeyboardInterrupt:
        _print_way_back(log.job, " --all-ranks")


def _print_end(row: dict[str, Any]) -> None:
    print_message(f"{single_line(row['id'])} {row['status']}, exit code {job_exit_code(row)}")


def _print_way_back(job: object, options: str = "") -> None:
    command = f"tessera logs -f {single_line(job)}{options}"
    print_message(f"\nThe job continues. To follow it again: {command}")


def _ranks(row: Mapping[str, Any], attempt: int) -> list[int]:
    """All of the attempt; of an older portal, as many as the job has replicas."""
    of_attempts = {each["number"]: each.get("replicas") for each in row["attempts"]}
    placed = of_attempts.get(attempt) or [{"rank": rank} for rank in range(row["replicas"])]
    return [int(each["rank"]) for each in placed]


def _until_started(cli: CliContext, row: dict[str, Any], follow: bool) -> dict[str, Any]:
    if follow and not is_over(row):
        row = wait_for_job(cli, row, until=has_started)
    if not row["attempts"]:
        sentence = f"{row['id']} is {row['status']} and never started, so it has no log"
        raise CommandFailed("no_log", sentence, f"tessera why {row['id']}", ExitCode.NOT_FOUND)
    return row


@dataclass
class LogPrinter:
    """Prints the logs of one attempt."""

    cli: CliContext
    job: str
    attempt: int
    is_prefixed: bool
    is_raw: bool

    def start(self, log: ReplicaLog, lines: int | None) -> None:
        """Print what has been written so far: all of it, or the last lines."""
        if lines is not None:
            self._seek_last_lines(log, lines)
        while self.print_next(log):
            pass

    def follow(self, logs: list[ReplicaLog], *, is_fixed: bool) -> dict[str, Any]:
        """Print the logs as they grow, also of new attempts. Returns the job once it has ended."""
        while True:
            row = fetch_job(self.cli.client, self.job)
            has_ended = is_over(row)
            newest = row["attempts"][-1]["number"]
            for log in logs:
                while self.print_next(log):
                    pass
            if newest != self.attempt and not is_fixed:
                self._continue_with(newest, logs)
            elif has_ended:
                return row
            else:
                self.cli.pause(POLL_SECONDS)

    def print_next(self, log: ReplicaLog) -> bool:
        """Print the next chunk. Returns whether there may be another one."""
        data, following = self._read(log.rank, log.offset, MAX_BYTES)
        if not data:
            return False
        log.offset = following
        self._write(log, data)
        return len(data) == MAX_BYTES

    def finish(self, log: ReplicaLog) -> None:
        """Print a last line that has no newline."""
        left = log.partial_line + log.decoder.decode(b"", final=True)
        log.partial_line = ""
        if left:
            self._line(log.rank, left, "\n")

    def _continue_with(self, attempt: int, logs: list[ReplicaLog]) -> None:
        print_message(f"Attempt {attempt}:")
        self.attempt = attempt
        for log in logs:
            self.finish(log)
            log.offset = 0
            log.decoder.reset()

    def _read(self, rank: int, offset: int, limit: int) -> tuple[bytes, int]:
        params = {"rank": rank, "offset": offset, "limit": limit, "attempt": self.attempt}
        path = api_path("jobs", self.job, "logs")
        answer = self.cli.client.call("GET", path, params=params, is_repeatable=True)
        return answer.content, int(answer.headers.get("X-Next-Offset", offset))

    def _seek_last_lines(self, log: ReplicaLog, lines: int) -> None:
        """Set the offset to where the last lines begin, searching further back until found."""
        size = self._size(log.rank)
        back = max(1, lines) * LINE_BYTES
        while True:
            start = max(0, size - back)
            data, _ = self._read_range(log.rank, start, size)
            # A line begins after the newline of the one before it.
            ends = [i + 1 for i, byte in enumerate(data[:-1]) if byte == 0x0A]
            if lines and len(ends) < lines and start:
                back *= 8
                continue
            begin = 0 if len(ends) < lines else (ends[-lines] if lines else len(data))
            log.offset = start + begin
            return

    def _size(self, rank: int) -> int:
        params = {"rank": rank, "offset": 0, "limit": 1, "attempt": self.attempt}
        path = api_path("jobs", self.job, "logs")
        answer = self.cli.client.call("GET", path, params=params, is_repeatable=True)
        return int(answer.headers.get("X-Log-Bytes", 0))

    def _read_range(self, rank: int, start: int, end: int) -> tuple[bytes, int]:
        chunks = b""
        while start < end:
            data, following = self._read(rank, start, min(MAX_BYTES, end - start))
            if not data:
                break
            chunks, start = chunks + data, following
        return chunks, start

    def _write(self, log: ReplicaLog, data: bytes) -> None:
        if not self.is_prefixed and (self.is_raw or not is_terminal(sys.stdout)):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        lines = (log.partial_line + log.decoder.decode(data)).split("\n")
        log.partial_line = lines.pop()
        for line in lines:
            self._line(log.rank, line, "\n")

    def _line(self, rank: int, line: str, end: str) -> None:
        prefix = f"[{rank}] " if self.is_prefixed else ""
        print_log_line(line, prefix, end, is_raw=self.is_raw)
