"""`tessera registries`: set, list and delete the credentials with which a project's images are
pulled. A password is never an argument: other users of the machine see those."""

from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.commands.secrets import read_hidden
from portal.cli.context import cli_context
from portal.cli.output import Column, OutputFormat, OutputOption, print_message, print_rows
from portal.cli.text import single_line

app = typer.Typer(
    help="Registry credentials of a project: set, list, delete. Passwords are never shown.",
    no_args_is_help=True,
)

COLUMNS = [
    Column("REGISTRY", lambda row: row["address"]),
    Column("USER", lambda row: row["user"]),
    Column("SET", lambda row: row["set_at"]),
    Column("BY", lambda row: row["author"]),
    Column("USED", lambda row: row["used_at"] or "never"),
]
HINT = "tessera registries set REGISTRY -p PROJECT --user USER < FILE"

RegistryArgument = Annotated[
    str, typer.Argument(help="such as ghcr.io, or ghcr.io/team", metavar="REGISTRY")
]
ProjectOption = Annotated[str, typer.Option("--project", "-p", help="of this project")]
UserOption = Annotated[str, typer.Option("--user", "-u", help="as whom to pull")]


@app.command("set")
def registry_set(
    context: typer.Context, registry: RegistryArgument, project: ProjectOption, user: UserOption
) -> None:
    """Set a credential: asks for its password or token, or reads it from standard input."""
    cli = cli_context(context)
    password = read_hidden(cli, f"Password or token for {registry}", HINT)
    body = {"user": user, "password": password}
    path = api_path("projects", project, "registries", registry)
    row = cli.client.call("PUT", path, body=body, is_repeatable=True, hint=HINT).json()
    print_message(
        f"Images in {single_line(row['address'])} are pulled as {single_line(user)} for jobs of "
        f"{single_line(project)}"
    )


@app.command("list")
def registry_list(
    context: typer.Context, project: ProjectOption, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List the registries that a project has credentials for."""
    path = api_path("projects", project, "registries")
    rows: list[dict[str, Any]] = cli_context(context).client.rows(path)
    print_rows(rows, COLUMNS, output, name="address", empty="There are no registries yet.")


@app.command("delete")
def registry_delete(
    context: typer.Context, registry: RegistryArgument, project: ProjectOption
) -> None:
    """Delete a credential. Images that nodes have already stay there."""
    path = api_path("projects", project, "registries", registry)
    hint = f"tessera registries list -p {single_line(project)}"
    cli_context(context).client.call("DELETE", path, hint=hint)
    print_message(f"The credential for {single_line(registry)} is deleted")
