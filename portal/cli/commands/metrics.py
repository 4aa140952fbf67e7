"""The metrics command: what a job reports about itself."""

from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.commands.actions import is_array
from portal.cli.commands.array_metrics import array_metrics
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    print_data,
    print_message,
    print_rows,
)
from portal.cli.text import single_line

COLUMNS = [
    Column("METRIC", lambda row: row["name"]),
    Column("RANK", lambda row: row["rank"]),
    Column("LAST", lambda row: f"{row['last']:.6g}"),
    Column("STEP", lambda row: row["last_step"]),
    Column("MIN", lambda row: f"{row['low']:.6g}"),
    Column("MAX", lambda row: f"{row['high']:.6g}"),
    Column("POINTS", lambda row: row["count"]),
]
EMPTY = (
    "No metrics yet. A job reports some by printing lines such as "
    'tessera-metric {"step": 1, "loss": 0.5}, or to the file in TESSERA_METRICS_FILE.'
)


def add_to(app: typer.Typer) -> None:
    app.command()(metrics)


def metrics(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="of an array, A-5, a row for each member")],
    name: Annotated[str, typer.Option("--name", "-n", help="only this metric")] = "",
    rank: Annotated[int | None, typer.Option("--rank", "-r", min=0, help="of a replica")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="all points: name,rank,step,value")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print the metrics that a job reports: the last values, or all points (--csv, -o json)."""
    cli = cli_context(context)
    if is_array(job):
        if name or rank is not None:
            sentence = "--name and --rank are of one job, not of an array"
            raise CommandFailed("usage", sentence, f"tessera metrics {job}", ExitCode.USAGE)
        array_metrics(cli, job, output, is_csv=csv)
        return
    query = {"name": name, "rank": rank, "points": str(csv or output.is_data).lower()}
    rows, page = _series(cli, job, query)
    skipped, utilisation = page["skipped"], page.get("model_utilisation")
    if csv:
        typer.echo("name,rank,step,value")
        for row in rows:
            for step, value in row["points"]:
                typer.echo(single_line(f"{row['name']},{row['rank']},{step:.0f},{value!r}"))
    elif output.is_data:
        data = {"results": rows, "skipped": skipped, "model_utilisation": utilisation}
        print_data(data, output)
    else:
        print_rows(rows, COLUMNS, output, name="name", empty=EMPTY)
    if skipped and output is not OutputFormat.NAME:
        reasons = ", ".join(f"{why} {count}" for why, count in sorted(skipped.items()))
        print_message(single_line(f"Lines that were no points: {reasons}"))
    if utilisation and output in (OutputFormat.TABLE, OutputFormat.WIDE):
        print_message(single_line(utilisation_text(utilisation)))


def utilisation_text(utilisation: dict[str, Any]) -> str:
    """Measured beside expected, in a line."""
    if utilisation["percent"] is None:
        measured = f"unknown. {utilisation['problem']}"
    else:
        measured = f"{utilisation['percent']:.1f} % of the peak of {utilisation['devices']}"
    expected, why = utilisation["expected"], utilisation["no_expectation"]
    if expected:
        why = f"the advisor expects {expected['percent']:.1f} % ({expected['division']})"
    return f"Model FLOPs utilisation: {measured}; {why}"


def _series(
    cli: CliContext, job: str, query: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All series, over the pages of REST, and the last page for what every page says."""
    rows: list[dict[str, Any]] = []
    after = 0
    while True:
        page = cli.client.get(
            api_path("jobs", job, "metrics"), hint="tessera ps -a", after=after, **query
        )
        rows += page["results"]
        if page["next_after"] is None:
            return rows, page
        after = page["next_after"]
