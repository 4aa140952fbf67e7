"""The ranks command: the ranks of a gang beside each other, and which lag."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.context import cli_context
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    print_data,
    print_message,
    print_rows,
)
from portal.cli.text import single_line


def _note(row: Mapping[str, Any]) -> str:
    if row["failed_first"]:
        return "failed first"
    return "straggler" if row["lags"] else ""


def _or_dash(value: object, unit: str = "") -> str:
    return "-" if value is None else f"{value}{unit}"


COLUMNS = [
    Column("RANK", lambda row: row["rank"]),
    Column("NODE", lambda row: row["node"]),
    Column("STATUS", lambda row: row["status"]),
    Column("EXIT", lambda row: _or_dash(row["exit_code"])),
    Column("ACTIVE", lambda row: _or_dash(row["active_percent"], " %")),
    Column("STEP", lambda row: _or_dash(row["last_step"])),
    Column("NOTE", _note),
]


def add_to(app: typer.Typer) -> None:
    app.command()(ranks)


def ranks(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print the ranks of a job's last attempt by node: their activity and steps, and which lag."""
    page = cli_context(context).client.get(api_path("jobs", job, "ranks"), hint="tessera ps -a")
    if output.is_data:
        print_data(page, output)
        return
    empty = f"{single_line(job)} has not been placed yet: tessera why {single_line(job)}"
    print_rows(page["results"], COLUMNS, output, name="rank", empty=empty)
    if output is not OutputFormat.NAME:
        for row in page["results"]:
            for sentence in row["lags"]:
                print_message(f"Straggler: {single_line(sentence)}")
