"""The metrics of an array: a row for each member, with what it was given and what it reports."""

from collections.abc import Mapping
from typing import Any

import typer

from portal.cli.client import api_path
from portal.cli.context import CliContext
from portal.cli.output import Column, OutputFormat, print_data, print_rows
from portal.cli.text import single_line

Row = Mapping[str, Any]
# Of a table; --csv and -o json have all.
MAX_METRICS = 6


def array_metrics(cli: CliContext, array: str, output: OutputFormat, *, is_csv: bool) -> None:
    """Print the last values as a table; or the last, least and greatest ones as CSV or JSON."""
    path = api_path("arrays", array, "metrics")
    if is_csv:
        with cli.client.download(path, csv="true") as answer:
            for line in answer.iter_lines():
                typer.echo(single_line(line))
        return
    rows = _members(cli, path)
    if output.is_data:
        print_data({"results": rows}, output)
        return
    print_rows(rows, _columns(rows), output, name="job")


def _members(cli: CliContext, path: str) -> list[Row]:
    """All of them, over the pages of REST."""
    rows: list[Row] = []
    after = 0
    while True:
        page = cli.client.get(path, hint="tessera ps -a", after=after)
        rows += page["results"]
        if page["next_after"] is None:
            return rows
        after = page["next_after"]


def _columns(rows: list[Row]) -> list[Column]:
    given = list(dict.fromkeys(name for row in rows for name in row["parameters"]))
    names = sorted({name for row in rows for name in row["metrics"]})[:MAX_METRICS]
    return [
        Column("INDEX", lambda row: row["index"]),
        *(_parameter(name) for name in given),
        Column("JOB", lambda row: row["job"]),
        Column("STATUS", lambda row: row["status"]),
        *(_metric(name) for name in names),
    ]


def _parameter(name: str) -> Column:
    return Column(name, lambda row: row["parameters"].get(name, ""))


def _metric(name: str) -> Column:
    def last(row: Row) -> str:
        figures = row["metrics"].get(name)
        return f"{figures['last']:.6g}" if figures else ""

    return Column(name, last)
