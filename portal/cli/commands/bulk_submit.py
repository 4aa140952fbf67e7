"""submit of many requests. Up to 1,000 jobs are one call: all of them, or none; more are several,
as fast as the portal takes them."""

import sys
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import typer

from portal.cli.context import CliContext
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import OutputFormat, console, facts_table, print_data, print_message
from portal.cli.progress import StatusLine
from portal.cli.text import single_line

PATH = "jobs/bulk"
# The most jobs of one call.
MAX_TOGETHER = 1_000
# Of each of several calls: two a minute are what a portal takes of one user by default.
PART = 600
# Of such a call: about ten minutes, in which a portal may also be restarted.
PART_TRIES = 20
# The exit code of a program that was ended by Ctrl-C, as shells report it.
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class BulkSubmitMode:
    """The options that a submit of many takes beside its requests."""

    dry_run: bool
    yes: bool
    key: str
    output: OutputFormat


def bulk_submit(
    cli: CliContext, bodies: list[dict[str, Any]], count: int, mode: BulkSubmitMode
) -> None:
    """Submit each request `count` times, after a question on a terminal. Prints the new jobs."""
    if mode.dry_run:
        _print_dry_run(_dry_run(cli, bodies, count), mode.output)
        return
    if not mode.yes and cli.is_interactive():
        console(sys.stderr).print(facts_table(_facts(_dry_run(cli, bodies, count))))
        if not typer.confirm("Submit?", default=True, err=True):
            print_message("Nothing was submitted.")
            raise typer.Exit(ExitCode.FAILURE)
    key = mode.key or str(uuid.uuid4())
    if len(bodies) * count > MAX_TOGETHER:
        parts = _Parts(cli, [body for body in bodies for _ in range(count)], key, mode.output)
        answer = parts.submit()
    else:
        answer = cli.client.post(PATH, {"jobs": bodies, "count": count}, key=key)
        _print_ids(answer, mode.output)
    if mode.output.is_data:
        print_data(answer, mode.output)
        return
    print_message(f"Submitted {answer['submitted']:,} jobs")


@dataclass
class _Parts:
    """More jobs than one call takes, submitted part by part. Each part has an idempotency key made
    of `key`: the same command with that key submits those that are left, and none twice."""

    cli: CliContext
    jobs: list[dict[str, Any]]
    key: str
    output: OutputFormat
    results: list[dict[str, Any]] = field(default_factory=list)
    size: int = PART
    line: StatusLine = field(default_factory=StatusLine)

    def submit(self) -> dict[str, Any]:
        """What one call would have answered. Raises CommandFailed after it said how to go on."""
        print_message(
            f"Submitting {len(self.jobs):,} jobs, some at a time. If this is cut short, "
            f"the same command with --key {self.key} submits the rest, and none twice."
        )
        try:
            while len(self.results) < len(self.jobs):
                self._submit_part()
        except KeyboardInterrupt:
            self._print_cut_short()
            raise typer.Exit(INTERRUPTED) from None
        except CommandFailed:
            self._print_cut_short()
            raise
        self.line.clear()
        return self._answer()

    def _submit_part(self) -> None:
        first = len(self.results)
        part = self.jobs[first : first + self.size]
        self._show("")
        try:
            answer = self.cli.client.post(
                PATH,
                {"jobs": part},
                key=f"{self.key}.{first}.{len(part)}",
                tries=PART_TRIES,
                on_busy=lambda seconds: self._show(f"; the portal takes more in {seconds:.0f} s"),
            )
        except CommandFailed as failed:
            if failed.code != "too_many" or self.size == 1:
                raise
            # The portal takes fewer in a minute than by default.
            self.size = max(1, self.size // 2)
            return
        self.line.clear()
        self.results += answer["results"]
        _print_ids(answer, self.output)

    def _show(self, more: str) -> None:
        done = len(self.results)
        self.line.show(f"Submitted {done:,} of {len(self.jobs):,} jobs{more}", (done, bool(more)))

    def _print_cut_short(self) -> None:
        self.line.clear()
        if self.output.is_data:
            print_data(self._answer(), self.output)
        print_message(
            f"{len(self.results):,} of {len(self.jobs):,} jobs are submitted. The same command "
            f"with --key {self.key} submits the rest, and none twice, within 24 hours."
        )

    def _answer(self) -> dict[str, Any]:
        return {"results": self.results, "submitted": len(self.results)}


def _print_ids(answer: dict[str, Any], output: OutputFormat) -> None:
    if not output.is_data:
        for job in answer["results"]:
            typer.echo(single_line(job["id"]))


def _dry_run(cli: CliContext, bodies: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """What the portal says of these jobs together. Copies cost alike: where one call does not take
    all of them, each request is tried once."""
    if len(bodies) * count <= MAX_TOGETHER:
        return _dry_run_call(cli, {"jobs": bodies, "count": count})
    firsts = range(0, len(bodies), PART)
    answers = [_dry_run_call(cli, {"jobs": bodies[first : first + PART]}) for first in firsts]
    sums = {
        name: sum(int(answer[name]) for answer in answers) * count
        for name in ("jobs", "awaiting_approval", "units")
    }
    hours = sum(Decimal(answer["gpu_hours"]) for answer in answers) * count
    return sums | {"gpu_hours": str(hours)}


def _dry_run_call(cli: CliContext, call: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = cli.client.post(PATH, call, is_repeatable=True, dry_run="true")
    return answer


def _print_dry_run(answer: dict[str, Any], output: OutputFormat) -> None:
    if output.is_data:
        print_data(answer, output)
    else:
        console(sys.stdout).print(facts_table(_facts(answer)))


def _facts(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("Jobs", str(answer["jobs"])),
        ("Awaiting approval", str(answer["awaiting_approval"])),
        ("GPU-hours at most", single_line(str(answer["gpu_hours"]))),
    ]
