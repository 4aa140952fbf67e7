"""The logs of all ranks as one, by time, as REST merges them; the rank before each line."""

import sys
from dataclasses import dataclass
from typing import Any

from portal.cli.client import api_path
from portal.cli.context import CliContext
from portal.cli.output import print_message
from portal.cli.progress import fetch_job, is_over
from portal.cli.text import single_line, strip_controls


@dataclass
class MergedLog:
    """The log of one attempt, and how far it has been printed."""

    cli: CliContext
    job: str
    attempt: int
    is_raw: bool
    after: str = ""
    """The position that REST gave; empty at the start."""

    def print_present(self, tail: int | None) -> None:
        """What has been written so far: all of it, or the last lines."""
        start = {"attempt": self.attempt} | ({} if tail is None else {"tail": tail})
        page = self._print_page(**start)
        if omitted := page["omitted_ranks"]:
            print_message(
                f"Without {omitted} of the replicas. "
                f"To see one of them: tessera logs {single_line(self.job)} --rank N"
            )
        if page["has_more"]:
            self._print_rest()

    def follow(self, *, is_fixed: bool, pause_seconds: float) -> dict[str, Any]:
        """Print lines as they arrive, also of new attempts. Returns the job once it has ended."""
        while True:
            row = fetch_job(self.cli.client, self.job)
            has_ended = is_over(row)
            newest = row["attempts"][-1]["number"]
            self._print_rest()
            if newest != self.attempt and not is_fixed:
                print_message(f"Attempt {newest}:")
                self.attempt, self.after = newest, ""
            elif has_ended:
                return row
            else:
                self.cli.pause(pause_seconds)

    def _print_rest(self) -> None:
        while self._print_page(after=self.after, attempt=self.attempt)["has_more"]:
            pass

    def _print_page(self, **params: Any) -> dict[str, Any]:
        page: dict[str, Any] = self.cli.client.get(
            api_path("jobs", self.job, "logs", "merged"), **params
        )
        for line in page["results"]:
            print_log_line(line["text"], f"[{line['rank']}] ", "\n", is_raw=self.is_raw)
        self.after = page["next_after"]
        return page


def print_log_line(line: str, prefix: str, end: str, *, is_raw: bool) -> None:
    """One line of a log; what a terminal overwrote with carriage returns are lines of their own."""
    shown = line if is_raw else strip_controls(line.removesuffix("\r"))
    for part in shown.split("\n"):
        sys.stdout.write(f"{prefix}{part}{end}")
    sys.stdout.flush()
