"""`tessera code`: the code that a project has, as its page lists it."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.context import cli_context
from portal.cli.output import Column, OutputFormat, OutputOption, print_message, print_rows
from portal.cli.text import single_line

app = typer.Typer(
    help="The code of a project: list what was sent and the commits that jobs ran, remove.",
    no_args_is_help=True,
)
ProjectOption = Annotated[
    str, typer.Option("--project", "-p", help="of this project; default: your only one")
]
HINT = "tessera code list"


def _jobs(row: Mapping[str, Any]) -> str:
    """The newest jobs with it, and how many more there are."""
    more = row["job_count"] - len(row["jobs"])
    return ", ".join(row["jobs"]) + (f" and {more} more" if more else "")


def _removal(row: Mapping[str, Any]) -> str:
    return "needed" if row["is_needed"] else row["removal_at"] or "never"


TREE_COLUMNS = [
    Column("CODE", lambda row: row["id"]),
    Column("SENT", lambda row: row["created_at"]),
    Column("BY", lambda row: row["creator"]),
    Column("ORIGIN", lambda row: row["origin"], wide=True),
    Column("FILES", lambda row: row["file_count"]),
    Column("BYTES", lambda row: row["total_bytes"]),
    Column("JOBS", _jobs),
    Column("REMOVED", _removal),
    Column("SHA-256", lambda row: row["digest"], wide=True),
]
COMMIT_COLUMNS = [
    Column("COMMIT", lambda row: row["commit"]),
    Column("REPOSITORY", lambda row: row["repository"]),
    Column("FIRST JOB", lambda row: row["first_at"], wide=True),
    Column("LAST JOB", lambda row: row["last_at"]),
    Column("BY", lambda row: row["creator"]),
    Column("JOBS", _jobs),
]


@app.command("list")
def code_list(
    context: typer.Context, project: ProjectOption = "", output: OutputOption = OutputFormat.TABLE
) -> None:
    """List the code that was sent to a project, the newest first."""
    cli = cli_context(context)
    rows = cli.client.rows(api_path("projects", project or cli.default_project(), "trees"))
    print_rows(rows, TREE_COLUMNS, output, empty="No code is stored.")


@app.command("commits")
def code_commits(
    context: typer.Context, project: ProjectOption = "", output: OutputOption = OutputFormat.TABLE
) -> None:
    """List the commits of git repositories that jobs of a project ran, the latest first."""
    cli = cli_context(context)
    rows = cli.client.rows(api_path("projects", project or cli.default_project(), "commits"))
    empty = "No job has run code from a git repository."
    print_rows(rows, COMMIT_COLUMNS, output, name="commit", empty=empty)


@app.command("rm")
def code_remove(
    context: typer.Context,
    code: Annotated[str, typer.Argument(help="its id, as tessera code list shows it")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask to confirm")] = False,
) -> None:
    """Remove code that was sent. Refused while a job with it waits or runs."""
    client = cli_context(context).client
    tree = client.get(api_path("trees", code), hint=HINT)
    mib = f"{tree['total_bytes'] / (1 << 20):,.1f} MiB"
    what = f"{tree['kind']} {single_line(code)}: {tree['file_count']} files, {mib}"
    if not yes:
        typer.confirm(f"Remove the {what}?", abort=True, err=True)
    client.call("DELETE", api_path("trees", code), hint=HINT)
    print_message(f"removed the {what}")
