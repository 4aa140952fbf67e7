"""`tessera volumes`: the folders that jobs of your projects may use."""

from collections.abc import Mapping
from typing import Any

import typer

from portal.cli.context import cli_context
from portal.cli.output import Column, OutputFormat, OutputOption, print_rows
from portal.cli.text import memory_text

COLUMNS = [
    Column("NAME", lambda row: row["name"]),
    Column("ACCESS", lambda row: "read-only" if row["read_only"] else "read-write"),
    Column("PROJECTS", lambda row: ", ".join(row["projects"])),
    Column("USED", lambda row: _used(row)),
    Column("QUOTA", lambda row: memory_text(row["quota_mib"]) if row["quota_mib"] else ""),
    Column("NODES", lambda row: ", ".join(each["node"] for each in row["nodes"]) or "none"),
    Column("FILES", lambda row: row["used_files"], wide=True),
    Column("PLACE", lambda row: f"{row['root']}/{row['subpath']}".rstrip("/"), wide=True),
    Column("DESCRIPTION", lambda row: row["description"], wide=True),
]
EMPTY = "Your projects have no volumes. A platform admin makes them."


def add_to(app: typer.Typer) -> None:
    app.command()(volumes)


def volumes(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """List volumes: folders that outlive jobs. Use one: tessera submit --volume NAME:/data."""
    rows = cli_context(context).client.rows("volumes")
    print_rows(rows, COLUMNS, output, name="name", empty=EMPTY)


def _used(row: Mapping[str, Any]) -> str:
    if row["used_mib"] is None:
        return ""
    least = "over " if row["is_partial"] else ""
    return f"{least}{memory_text(row['used_mib'])}" + (" (full)" if row["is_over_quota"] else "")
