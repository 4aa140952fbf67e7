"""`tessera secrets`: set, list and delete what jobs read as secrets. A value is never an argument:
other users of the machine see those."""

import sys
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    print_message,
    print_rows,
)
from portal.cli.text import single_line

app = typer.Typer(
    help="Secrets of jobs: set, list, delete. Values are never shown.", no_args_is_help=True
)

COLUMNS = [
    Column("NAME", lambda row: row["name"]),
    Column("SET", lambda row: row["set_at"]),
    Column("BY", lambda row: row["author"]),
    Column("USED", lambda row: row["used_at"] or "never"),
]
HINT = "tessera secrets set NAME < FILE"

NameArgument = Annotated[str, typer.Argument(help="such as HF_TOKEN", metavar="NAME")]
ProjectOption = Annotated[
    str, typer.Option("--project", "-p", help="of this project; without it, your own")
]


@app.command("set")
def secret_set(context: typer.Context, name: NameArgument, project: ProjectOption = "") -> None:
    """Set a secret: asks for its value, or reads it from standard input."""
    cli = cli_context(context)
    value = read_hidden(cli, f"Value of {name}", HINT)
    path = api_path(*_owner(project), name)
    cli.client.call("PUT", path, body={"value": value}, is_repeatable=True, hint=HINT)
    whose = f"of {single_line(project)}" if project else "of yours"
    print_message(
        f"{single_line(name)} is set as a secret {whose}. Use it: tessera submit --secret"
    )


@app.command("list")
def secret_list(
    context: typer.Context, project: ProjectOption = "", output: OutputOption = OutputFormat.TABLE
) -> None:
    """List the names of secrets."""
    rows: list[dict[str, Any]] = cli_context(context).client.rows(api_path(*_owner(project)))
    print_rows(rows, COLUMNS, output, name="name", empty="There are no secrets yet.")


@app.command("delete")
def secret_delete(context: typer.Context, name: NameArgument, project: ProjectOption = "") -> None:
    """Delete a secret. Jobs that wait for their start wait until it is set again."""
    path = api_path(*_owner(project), name)
    cli_context(context).client.call("DELETE", path, hint="tessera secrets list")
    print_message(f"{single_line(name)} is deleted")


def _owner(project: str) -> tuple[str, ...]:
    return ("projects", project, "secrets") if project else ("secrets",)


def read_hidden(cli: CliContext, prompt: str, hint: str) -> str:
    """What was typed, without an echo; or all of standard input without the end of its last line,
    which `echo` writes."""
    if cli.is_interactive():
        value = str(typer.prompt(prompt, hide_input=True, err=True))
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise CommandFailed("usage", "No value was given", hint, ExitCode.USAGE)
    return value
