"""Output of commands: data on stdout in the requested format, messages on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from portal.cli.exit_codes import CommandFailed
from portal.cli.text import single_line

# Width for files and pipes: rows are never cut or folded there.
UNLIMITED_WIDTH = 20_000

STYLES = {
    "running": "green",
    "succeeded": "green",
    "online": "green",
    "ok": "green",
    "queued": "yellow",
    "awaiting_approval": "yellow",
    "placed": "cyan",
    "preparing": "cyan",
    "stopping": "cyan",
    "failed": "red",
    "timed_out": "red",
    "lost": "red",
    "unreachable": "red",
    "faulted": "red",
    "missing": "red",
    "cancelled": "dim",
}


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_data(self) -> bool:
        """Whether it has all that REST says, for programs."""
        return self in (OutputFormat.JSON, OutputFormat.YAML)


OutputOption = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="table, wide, json, yaml, or name (one id per line)"),
]


@dataclass(frozen=True)
class Column:
    """A column; `cell` renders a row, and `wide` columns are shown only with `-o wide`."""

    title: str
    cell: Callable[[Mapping[str, Any]], object]
    wide: bool = False


def is_terminal(stream: IO[str]) -> bool:
    return stream.isatty()


def console(stream: IO[str]) -> Console:
    """A console with colours only on a terminal, and not with NO_COLOR."""
    on_terminal = is_terminal(stream)
    return Console(
        file=stream,
        force_terminal=on_terminal,
        no_color=not on_terminal or bool(os.environ.get("NO_COLOR")),
        width=None if on_terminal else UNLIMITED_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_message(sentence: str) -> None:
    """A message for the person, on stderr."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def print_failure(failed: CommandFailed) -> None:
    """The code, sentence, invalid fields and next command to try, on stderr."""
    print_message(f"tessera: {failed.code}: {single_line(failed.sentence)}")
    for field, message in failed.fields:
        if len(failed.fields) > 1 or single_line(message) not in single_line(failed.sentence):
            print_message(f"  {single_line(field)}: {single_line(message)}")
    if failed.next_command:
        print_message(f"  Next: {failed.next_command}")


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Iterable[Column],
    output_format: OutputFormat,
    *,
    name: str = "id",
    empty: str = "",
) -> None:
    """A list. JSON and YAML have the rows of REST; `empty` is the message for an empty table."""
    if output_format.is_data:
        print_data(list(rows), output_format)
    elif output_format is OutputFormat.NAME:
        for row in rows:
            sys.stdout.write(f"{single_line(row.get(name, ''))}\n")
    elif rows:
        console(sys.stdout).print(
            rows_table(rows, columns, wide=output_format is OutputFormat.WIDE)
        )
    elif empty:
        print_message(empty)


def print_data(value: Any, output_format: OutputFormat) -> None:
    """One value of REST as JSON or YAML."""
    if output_format is OutputFormat.YAML:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    else:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(text)


def print_row(row: Mapping[str, Any], output_format: OutputFormat, *, name: str = "id") -> None:
    """What a command created or changed: its name, or all of it as JSON or YAML."""
    if output_format.is_data:
        print_data(dict(row), output_format)
    else:
        sys.stdout.write(f"{single_line(row.get(name, ''))}\n")
        sys.stdout.flush()


def rows_table(
    rows: Iterable[Mapping[str, Any]], columns: Iterable[Column], *, wide: bool = False
) -> Table:
    visible = [column for column in columns if wide or not column.wide]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in visible:
        table.add_column(column.title, overflow="fold")
    for row in rows:
        cells = [single_line(column.cell(row)) or "-" for column in visible]
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return table


def facts_table(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a row, without empty values."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if (text := single_line("" if value is None else value)) != "":
            table.add_row(name, Text(text, style=STYLES.get(text, "")))
    return table
