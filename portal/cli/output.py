"""What a command prints: data on stdout in the asked form, everything else on stderr."""

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

# Off a terminal nobody's window sets a width: rows are never cut or folded there.
NO_WINDOW = 20_000

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


OutputOption = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="table, wide, json, yaml, or name: one id a line"),
]


@dataclass(frozen=True)
class Column:
    """`cell` makes text of a row; `wide`: only in `-o wide`."""

    title: str
    cell: Callable[[Mapping[str, Any]], object]
    wide: bool = False


def is_terminal(stream: IO[str]) -> bool:
    return stream.isatty()


def console(stream: IO[str]) -> Console:
    """Colours only on a terminal, and not with NO_COLOR."""
    on_terminal = is_terminal(stream)
    return Console(
        file=stream,
        force_terminal=on_terminal,
        no_color=not on_terminal or bool(os.environ.get("NO_COLOR")),
        width=None if on_terminal else NO_WINDOW,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_message(sentence: str) -> None:
    """A word to the person, on stderr."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def print_failure(failed: CommandFailed) -> None:
    """Code, sentence, the fields, and the next command to try."""
    print_message(f"tessera: {failed.code}: {single_line(failed.sentence)}")
    for field, message in failed.fields:
        if len(failed.fields) > 1 or single_line(message) not in single_line(failed.sentence):
            print_message(f"  {single_line(field)}: {single_line(message)}")
    if failed.next_command:
        print_message(f"  Next: {failed.next_command}")


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Iterable[Column],
    form: OutputFormat,
    *,
    name: str = "id",
    empty: str = "",
) -> None:
    """A list. Machines get REST's own rows; `empty` tells people that there is none."""
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        print_data(list(rows), form)
    elif form is OutputFormat.NAME:
        for row in rows:
            sys.stdout.write(f"{single_line(row.get(name, ''))}\n")
    elif rows:
        console(sys.stdout).print(rows_table(rows, columns, wide=form is OutputFormat.WIDE))
    elif empty:
        print_message(empty)


def print_data(value: Any, form: OutputFormat) -> None:
    """One value of REST as JSON or YAML."""
    if form is OutputFormat.YAML:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    else:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(text)


def print_row(row: Mapping[str, Any], form: OutputFormat, *, name: str = "id") -> None:
    """What a command made or changed: its name on stdout, or whole for a machine that asks so."""
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        print_data(dict(row), form)
    else:
        sys.stdout.write(f"{single_line(row.get(name, ''))}\n")
        sys.stdout.flush()


def rows_table(
    rows: Iterable[Mapping[str, Any]], columns: Iterable[Column], *, wide: bool = False
) -> Table:
    shown = [column for column in columns if wide or not column.wide]
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in shown:
        made.add_column(column.title, overflow="fold")
    for row in rows:
        cells = [single_line(column.cell(row)) or "-" for column in shown]
        made.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return made


def facts_table(pairs: Iterable[tuple[str, object]]) -> Table:
    """Name and value, one below the other; what is empty is left out."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if (text := single_line("" if value is None else value)) != "":
            made.add_row(name, Text(text, style=STYLES.get(text, "")))
    return made
