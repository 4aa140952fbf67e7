"""`tessera apps`: apps of jobs, with whom they are shared, and tokens with which programs call."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.context import cli_context
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

app = typer.Typer(
    help="Apps of jobs: addresses, sharing, and tokens for programs.", no_args_is_help=True
)

APPS = [
    Column("NAME", lambda row: row["name"]),
    Column("PORT", lambda row: row["port"]),
    Column("ADDRESS", lambda row: row["address"] or "none: the portal serves no apps"),
    Column("SHARED WITH", lambda row: ", ".join(each["user"] for each in row["guests"])),
]
SHARED = [
    Column("JOB", lambda row: row["job"]),
    Column("APP", lambda row: row["app"]),
    Column("OWNER", lambda row: row["owner"]),
    Column("STATUS", lambda row: row["status"]),
    Column("ADDRESS", lambda row: row["address"]),
]
TOKENS = [
    Column("ID", lambda row: row["id"]),
    Column("NAME", lambda row: row["name"]),
    Column("OPENS", lambda row: _opens(row)),
    Column("EXPIRES", lambda row: row["expires_at"]),
    Column("REQUESTS", lambda row: row["requests"]),
    Column("BYTES IN", lambda row: row["bytes_in"]),
    Column("BYTES OUT", lambda row: row["bytes_out"]),
    Column("LAST USED", lambda row: row["last_used_at"] or "never"),
]

JobArgument = Annotated[str, typer.Argument(help="such as J-12", metavar="JOB")]
AppArgument = Annotated[str, typer.Argument(help="its name in the request", metavar="APP")]
UserArgument = Annotated[str, typer.Argument(help="whom: a user name", metavar="USER")]


@app.command("list")
def app_list(
    context: typer.Context, job: JobArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List the apps of a job, and with whom they are shared."""
    rows = cli_context(context).client.rows(api_path("jobs", job, "apps"))
    print_rows(rows, APPS, output, name="name", empty="This job has no apps. Ask for one: --app")


@app.command("shared")
def app_shared(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the apps that others share with you now."""
    rows = cli_context(context).client.rows("guest-apps")
    print_rows(rows, SHARED, output, name="app", empty="Nobody shares an app with you now.")


@app.command("share")
def app_share(
    context: typer.Context, job: JobArgument, app: AppArgument, user: UserArgument
) -> None:
    """Share an app of your job with a person. Of a notebook, they act as you."""
    path = api_path("jobs", job, "apps", app, "guests", user)
    cli_context(context).client.call("PUT", path, is_repeatable=True, hint="tessera apps list JOB")
    print_message(f"{single_line(user)} may open {single_line(app)} of {single_line(job)} now")


@app.command("unshare")
def app_unshare(
    context: typer.Context, job: JobArgument, app: AppArgument, user: UserArgument
) -> None:
    """Take an app back from a person; what they have open ends within 5 seconds."""
    path = api_path("jobs", job, "apps", app, "guests", user)
    cli_context(context).client.call("DELETE", path, hint="tessera apps list JOB")
    print_message(f"{single_line(user)} may not open {single_line(app)} any more")


@app.command("tokens")
def app_tokens(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """List your tokens for apps, and what was called with each."""
    rows = cli_context(context).client.rows("app-tokens")
    print_rows(rows, TOKENS, output, name="id", empty="You have no tokens for apps.")


@app.command("token")
def app_token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="where it will be used", metavar="NAME")],
    job: Annotated[str, typer.Option("--job", "-j", help="for one app of this job")] = "",
    app: Annotated[str, typer.Option("--app", "-a", help="which app of the job")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="for its apps")] = "",
    days: Annotated[int, typer.Option("--days", min=1, max=365, help="until it expires")] = 90,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Create a token for one app, or for all apps of a project, and print it, this once."""
    if bool(job and app) == bool(project):
        raise CommandFailed(
            "usage",
            "Name either a job and its app, or a project",
            "tessera apps token NAME --job JOB --app APP",
            ExitCode.USAGE,
        )
    body = {"name": name, "job": job, "app": app, "project": project, "days": days}
    made = cli_context(context).client.call("POST", "app-tokens", body=body).json()
    if output.is_data:
        print_data(made, output)
    else:
        typer.echo(made["token"])


@app.command("revoke")
def app_token_revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="its ID in the list", metavar="ID")],
) -> None:
    """Revoke a token for apps; what is open with it ends within 5 seconds."""
    path = api_path("app-tokens", token)
    cli_context(context).client.call("DELETE", path, hint="tessera apps tokens")
    print_message(f"{single_line(token)} is revoked")


def _opens(row: Mapping[str, Any]) -> str:
    return f"{row['app']} of {row['job']}" if row["job"] else f"all apps of {row['project']}"
