"""Commands that change a job: cancel, extend, retry, replace, ask, hold, release."""

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

Job = Annotated[str, typer.Argument(help="e.g. J-12")]


def add_to(app: typer.Typer) -> None:
    for command in (cancel, extend, retry, replace, ask, hold, release):
        app.command()(command)


def cancel(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="e.g. J-12 J-13")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Cancel jobs, or all members of an array (scancel). One that has ended is not an error."""
    cli = cli_context(context)
    ended: list[dict[str, Any]] = []
    failures: list[CommandFailed] = []
    for job in dict.fromkeys(jobs):
        try:
            if is_array(job):
                array = cli.client.post(api_path("arrays", job, "cancel"), is_repeatable=True)
                print_message(f"{single_line(array['id'])}: all members cancelled or stopping")
                continue
            before = fetch_job(cli.client, job)
            row = cli.client.post(api_path("jobs", job, "cancel"), is_repeatable=True)
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
        outcome = f"had already ended ({row['status']})" if was_over else row["status"]
        print_message(f"{single_line(row['id'])} {outcome}")
    if output is not OutputFormat.TABLE:
        print_rows(ended, job_columns(cli.now()), output)
    if failures:
        raise typer.Exit(failures[0].exit_code)


def extend(
    context: typer.Context,
    job: Job,
    duration: Annotated[str, typer.Argument(help="additional time, e.g. 1h")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Give a running job more time."""
    cli = cli_context(context)
    row = _act(cli, job, "extend", {"by": duration})
    print_message(f"{single_line(row['id'])} has {time_left(row, cli.now())} left")
    print_row(row, output)


def retry(
    context: typer.Context,
    job: Job,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Submit the same request again, as a new job; of an array, the members that failed."""
    cli = cli_context(context)
    if is_array(job):
        array = cli.client.post(api_path("arrays", job, "retry"), key=str(uuid.uuid4()))
        waiting = array["members"]["waiting"]
        print_message(f"{single_line(array['id'])} is retried: {waiting} members wait")
        return
    row = _act(cli, job, "retry", None, key=str(uuid.uuid4()))
    label = single_line(row["id"])
    print_message(f"{label} retries {single_line(job)}. Follow it: tessera why {label}")
    print_row(row, output)


def replace(
    context: typer.Context,
    job: Job,
    number: Annotated[int, typer.Argument(help="number of an alternative that `why` lists")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Replace a waiting job by an alternative, at its place in the queue."""
    cli = cli_context(context)
    row = fetch_job(cli.client, job)
    alternatives = (row.get("reason") or {}).get("alternatives") or []
    alternative = pick_alternative(alternatives, number, str(row["id"]))
    new = cli.client.post(api_path("jobs", job, "replace"), {"changes": alternative["changes"]})
    new_label, old_label = single_line(new["id"]), single_line(row["id"])
    print_message(f"{new_label} replaces {old_label}: {single_line(alternative['sentence'])}")
    print_row(new, output)


def ask(
    context: typer.Context,
    job: Job,
    note: Annotated[str, typer.Option(help="for the admin who decides")] = "",
) -> None:
    """Ask an admin for the limit that a job waits for."""
    row = _act(cli_context(context), job, "limit-request", {"note": note})
    label = single_line(row["job"])
    print_message(f"Request sent to an admin. The answer appears in: tessera events {label}")


def hold(
    context: typer.Context,
    job: Job,
    reason: Annotated[str, typer.Option("--because", help="the reason, which others see")] = "held",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Keep a waiting job from starting (scontrol hold)."""
    row = _act(cli_context(context), job, "hold", {"because": reason})
    label = single_line(row["id"])
    print_message(f"{label} is held. To let it start: tessera release {label}")
    print_row(row, output)


def release(context: typer.Context, job: Job, output: OutputOption = OutputFormat.TABLE) -> None:
    """Let a held job start (scontrol release)."""
    row = _act(cli_context(context), job, "release", None)
    print_message(f"{single_line(row['id'])} is released")
    print_row(row, output)


def is_array(label: str) -> bool:
    """Whether it names an array, A-5, and not a job."""
    return label[:2].upper() == "A-"


def _act(cli: CliContext, job: str, verb: str, body: Any, *, key: str = "") -> dict[str, Any]:
    """POST an action. Tells a portal without this action from an unknown job."""
    try:
        row: dict[str, Any] = cli.client.post(api_path("jobs", job, verb), body, key=key)
    except CommandFailed as failed:
        if failed.exit_code is not ExitCode.NOT_FOUND:
            raise
        fetch_job(cli.client, job)
        sentence = f"This portal's API has no {verb}"
        raise CommandFailed("not_offered", sentence, f"tessera show {job}") from failed
    return row
