"""`tessera admin node pairs`, `measure` and `clear-pair`: the network between two nodes."""

from typing import Annotated, Any

import typer

from portal.cli.context import cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    print_message,
    print_row,
    print_rows,
)
from portal.cli.text import single_line

PAIR_COLUMNS = [
    Column("FIRST", lambda row: row["first"]),
    Column("SECOND", lambda row: row["second"]),
    Column("RESULT", lambda row: row["verdict"]),
    Column("GB/S", lambda row: _gigabytes(row["busbw_mb_per_second"])),
    Column("EXPECTED", lambda row: _gigabytes(row["expected_mb_per_second"])),
    Column("JOB", lambda row: row["job"]),
    Column("PROBLEM", lambda row: row["problem"], wide=True),
]


def pairs(
    context: typer.Context,
    all_rows: Annotated[
        bool, typer.Option("--all", "-a", help="earlier results of the same pairs, too")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the measured pairs of nodes and what their network reached."""
    rows = cli_context(context).client.rows("pair-measurements")
    shown = [row for row in rows if all_rows or row["is_current"] or row["verdict"] == "open"]
    empty = "No pair of nodes has been measured."
    print_rows(shown, PAIR_COLUMNS, output, name="job", empty=empty)


def measure(
    context: typer.Context,
    node: Annotated[str, typer.Argument(help="name of the node")],
    other: Annotated[str, typer.Argument(help="name of the other node")],
    project: Annotated[
        str, typer.Option("--project", "-p", help="of the job; default: TESSERA_PROJECT")
    ] = "",
    expected: Annotated[
        float, typer.Option(min=0, max=10_000, help="GB/s; default: the cards' line rate")
    ] = 0.0,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Measure the network between two nodes by a job that runs nccl-tests on all their GPUs."""
    cli = cli_context(context)
    body = {
        "nodes": [node, other],
        "project": project or cli.access.project,
        "expected_mb_per_second": round(expected * 1_000),
    }
    row: dict[str, Any] = cli.client.post("pair-measurements", body, hint="tessera admin node list")
    job = single_line(row["job"])
    print_message(f"{job} measures it once both nodes are free: tessera logs -f {job}")
    print_row(row, output, name="job")


def clear_pair(
    context: typer.Context,
    node: Annotated[str, typer.Argument(help="name of the node")],
    other: Annotated[str, typer.Argument(help="name of the other node")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Have gangs use a slow pair of nodes again, as after a repair, before it is measured anew."""
    client = cli_context(context).client
    both = sorted((node, other))
    found = [row for row in client.rows("pair-measurements") if _is_of(row, both)]
    if not found:
        sentence = f"no result of {node} and {other} keeps gangs away"
        raise CommandFailed("not_found", sentence, "tessera admin node pairs", ExitCode.NOT_FOUND)
    row: dict[str, Any] = client.post(f"pair-measurements/{found[0]['id']}/clear")
    print_message("gangs use this pair again")
    print_row(row, output, name="job")


def _is_of(row: dict[str, Any], nodes: list[str]) -> bool:
    is_bad = row["is_current"] and row["verdict"] in ("slow", "wrong")
    return is_bad and sorted((row["first"], row["second"])) == nodes


def add_to(nodes: typer.Typer) -> None:
    nodes.command()(pairs)
    nodes.command()(measure)
    nodes.command("clear-pair")(clear_pair)


def _gigabytes(mb_per_second: int) -> str:
    return f"{mb_per_second / 1_000:.1f}" if mb_per_second else ""
