"""submit of many requests in one call: all of them, or none."""

import sys
import uuid
from dataclasses import dataclass
from typing import Any

import typer

from portal.cli.context import CliContext
from portal.cli.exit_codes import ExitCode
from portal.cli.output import OutputFormat, console, facts_table, print_data, print_message
from portal.cli.text import single_line

PATH = "jobs/bulk"


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
    call = {"jobs": bodies, "count": count}
    if mode.dry_run:
        _print_dry_run(_dry_run(cli, call), mode.output)
        return
    if not mode.yes and cli.is_interactive():
        console(sys.stderr).print(facts_table(_facts(_dry_run(cli, call))))
        if not typer.confirm("Submit?", default=True, err=True):
            print_message("Nothing was submitted.")
            raise typer.Exit(ExitCode.FAILURE)
    answer = cli.client.post(PATH, call, key=mode.key or str(uuid.uuid4()))
    if mode.output in (OutputFormat.JSON, OutputFormat.YAML):
        print_data(answer, mode.output)
        return
    for job in answer["results"]:
        typer.echo(single_line(job["id"]))
    print_message(f"Submitted {answer['submitted']} jobs")


def _dry_run(cli: CliContext, call: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = cli.client.post(PATH, call, is_repeatable=True, dry_run="true")
    return answer


def _print_dry_run(answer: dict[str, Any], output: OutputFormat) -> None:
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_data(answer, output)
    else:
        console(sys.stdout).print(facts_table(_facts(answer)))


def _facts(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("Jobs", str(answer["jobs"])),
        ("Awaiting approval", str(answer["awaiting_approval"])),
        ("GPU-hours at most", single_line(str(answer["gpu_hours"]))),
    ]
