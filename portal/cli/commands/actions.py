"""cancel, extend, retry, replace, hold, release."""

import uuid
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.commands.inspect import pick_alternative
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import FINAL_STATUSES, job_columns, time_left
from portal.cli.output import (
    OutputFormat,
    OutputOption,
    print_failure,
    print_message,
    print_row,
    print_rows,
)
from portal.cli.progress import fetch_job
from portal.cli.text import single_line

Job = Annotated[str, typer.Argument(help="such as J-12")]


def add_to(app: typer.Typer) -> None:
    for command in (cancel, extend, retry, replace, hold, release):
        app.command()(command)


def cancel(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="such as J-12 J-13")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """End jobs (scancel). One that is over already is no failure."""
    at_hand = cli_context(context)
    ended, failures = [], []
    for job in dict.fromkeys(jobs):
        try:
            before = fetch_job(at_hand.client, job)
            row = at_hand.client.post(api_path("jobs", job, "cancel"), is_repeatable=True)
        except CommandFailed as failed:
            if len(jobs) == 1:
                raise
            failures.append(failed)
            print_failure(
                CommandFailed(failed.code, f"{job}: {failed.sentence}", failed.next_command)
            )
            continue
        ended.append(row)
        was_over = before["status"] in FINAL_STATUSES
        print_message(f"{single_line(row['id'])} {'was ' if was_over else ''}{row['status']}")
    if output is not OutputFormat.TABLE:
        print_rows(ended, job_columns(at_hand.now()), output)
    if failures:
        raise typer.Exit(failures[0].exit)


def extend(
    context: typer.Context,
    job: Job,
    by: Annotated[str, typer.Argument(help="how much more time, such as 1h")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Give a running job more time."""
    at_hand = cli_context(context)
    row = _act(at_hand, job, "extend", {"by": by})
    print_message(f"{single_line(row['id'])} has {time_left(row, at_hand.now())} left")
    print_row(row, output)


def retry(
    context: typer.Context,
    job: Job,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Ask for the same once more, as a new job."""
    at_hand = cli_context(context)
    row = _act(at_hand, job, "retry", None, key=str(uuid.uuid4()))
    print_message(
        f"{single_line(row['id'])} tries {single_line(job)} again. Follow: tessera why {single_line(row['id'])}"
    )
    print_row(row, output)


def replace(
    context: typer.Context,
    job: Job,
    number: Annotated[int, typer.Argument(help="of the alternatives that `why` lists")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take an alternative that could start now; it keeps the place in the queue."""
    at_hand = cli_context(context)
    row = fetch_job(at_hand.client, job)
    alternatives = (row.get("reason") or {}).get("alternatives") or []
    taken = pick_alternative(alternatives, number, str(row["id"]))
    new = at_hand.client.post(api_path("jobs", job, "replace"), {"changes": taken["changes"]})
    print_message(
        f"{single_line(new['id'])} takes the place of {single_line(row['id'])}: {single_line(taken['sentence'])}"
    )
    print_row(new, output)


def hold(
    context: typer.Context,
    job: Job,
    because: Annotated[str, typer.Option("--because", help="what it waits for")] = "held",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Keep a waiting job from starting (scontrol hold)."""
    row = _act(cli_context(context), job, "hold", {"because": because})
    print_message(
        f"{single_line(row['id'])} is held. Let it go: tessera release {single_line(row['id'])}"
    )
    print_row(row, output)


def release(context: typer.Context, job: Job, output: OutputOption = OutputFormat.TABLE) -> None:
    """Let a held job start (scontrol release)."""
    row = _act(cli_context(context), job, "release", None)
    print_message(f"{single_line(row['id'])} is released")
    print_row(row, output)


def _act(at_hand: CliContext, job: str, verb: str, body: Any, *, key: str = "") -> dict[str, Any]:
    """POST the verb. A portal that has no such address says so, not that the job is unknown."""
    try:
        found: dict[str, Any] = at_hand.client.post(api_path("jobs", job, verb), body, key=key)
    except CommandFailed as failed:
        if failed.exit_code is not ExitCode.NOT_FOUND:
            raise
        fetch_job(at_hand.client, job)
        sentence = f"This portal has no {verb} over REST"
        raise CommandFailed("not_offered", sentence, f"tessera show {job}") from failed
    return found
