"""Commands about the session: login, logout, whoami."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli.config import (
    PortalAccess,
    config_path,
    delete_access,
    is_unencrypted,
    load_access,
    parse_url,
    store_access,
    stored_access,
    with_environment,
)
from portal.cli.context import CliContext, cli_context
from portal.cli.environment import TOKEN_VARIABLES, has_token, secret, without_token
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    OutputFormat,
    OutputOption,
    console,
    facts_table,
    print_data,
    print_message,
)
from portal.cli.text import clock_text, parse_time


def add_to(app: typer.Typer) -> None:
    app.command()(login)
    app.command()(logout)
    app.command()(whoami)


def login(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="address of the portal")] = "",
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="read the token from standard input")
    ] = False,
    project: Annotated[str, typer.Option(help="default project of submit")] = "",
    ca_file: Annotated[
        Path | None, typer.Option(help="trust these certificate authorities (PEM)")
    ] = None,
    proxy: Annotated[str, typer.Option(help="call the portal through this HTTP proxy")] = "",
) -> None:
    """Store the portal's address and your API token (created on its Account page)."""
    cli = cli_context(context)
    saved = stored_access(cli.env)
    address = parse_url(url or cli.env.get("TESSERA_URL", "") or saved.url or _prompt_for_url(cli))
    if is_unencrypted(address):
        print_message(f"Note: {address} is not HTTPS: the token can be read in transit.")
    if "@" in proxy:
        sentence = "A password on a command line is public"
        raise CommandFailed(
            "usage", sentence, "TESSERA_PROXY=URL tessera login URL", ExitCode.USAGE
        )
    token = _token(cli, token_stdin, address)
    own = saved if address == saved.url else PortalAccess()
    way = {"ca_file": str(ca_file.absolute()) if ca_file else "", "proxy": proxy}
    chosen = {name: value for name, value in way.items() if value}
    access = replace(own, url=address, token=token, project=project or own.project, **chosen)
    # What is chosen here wins over the environment, which wins over what was saved.
    tried = replace(with_environment(cli.env, access), **chosen)
    projects = cli.client_for(tried).get("me")["projects"]
    if project and project not in {row["slug"] for row in projects}:
        sentence = f"{project!r} is not one of your projects: {_names(projects)}"
        raise CommandFailed(
            "project_unknown", sentence, "tessera login, without --project", ExitCode.USAGE
        )
    path = store_access(cli.env, access)
    print_message(f"Signed in to {address}. Saved to {path}. Your projects: {_names(projects)}")
    if has_token(cli.env) or cli.env.get("TESSERA_URL"):
        print_message(
            "Note: TESSERA_URL and TESSERA_TOKEN in the environment override the saved values."
        )


def logout(
    context: typer.Context,
    revoke: Annotated[
        bool, typer.Option(help="also revoke the token on the portal; needs scope admin")
    ] = False,
) -> None:
    """Delete the saved address and token."""
    cli = cli_context(context)
    if revoke:
        access = load_access(without_token(cli.env))
        client = cli.client_for(access)
        token = client.get("me")["token"]
        client.call("DELETE", f"tokens/{token['id']}", hint="tessera logout")
    existed = delete_access(cli.env)
    print_message("Signed out." if existed else f"Nothing was saved in {config_path(cli.env)}.")
    if has_token(cli.env):
        print_message(f"Note: {' or '.join(TOKEN_VARIABLES)} is still set in the environment.")


def whoami(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show the portal, your user, your token and your projects."""
    cli = cli_context(context)
    mine = cli.client.get("me")
    token, projects = mine["token"], mine["projects"]
    info = {
        "url": cli.access.url,
        "user": mine["user"],
        "token": token,
        "projects": [str(row["slug"]) for row in projects],
        "project": cli.access.project or None,
    }
    if output.is_data:
        print_data(info, output)
        return
    if output is OutputFormat.NAME:
        typer.echo(mine["user"])
        return
    end = parse_time(token["expires_at"])
    pairs = [
        ("Portal", cli.access.url),
        ("User", mine["user"] + (" (platform admin)" if mine["is_platform_admin"] else "")),
        ("Token", f"{token['name']} ({token['id']}…)"),
        ("Scope", token["scope"]),
        ("Expires", clock_text(end, cli.now()) if end else "never"),
        ("Projects", ", ".join(f"{row['slug']} ({row['role']})" for row in projects) or "none yet"),
        ("Submits to", cli.access.project),
    ]
    console(sys.stdout).print(facts_table(pairs))


def _prompt_for_url(cli: CliContext) -> str:
    if not cli.is_interactive():
        raise CommandFailed(
            "usage", "The address of the portal is missing", "tessera login URL", ExitCode.USAGE
        )
    return str(typer.prompt("Address of the portal", err=True))


def _token(cli: CliContext, from_stdin: bool, address: str) -> str:
    if from_stdin:
        token = sys.stdin.readline().strip()
    elif cli.is_interactive():
        print_message(f"Create a token at {address}/account/ and paste it here; it is not echoed.")
        token = str(typer.prompt("Token", hide_input=True, err=True)).strip()
    else:
        token = secret(cli.env, "TESSERA_TOKEN")
    if not token:
        sentence = "No token was given"
        raise CommandFailed(
            "usage", sentence, "tessera login URL --token-stdin < FILE", ExitCode.USAGE
        )
    return token


def _names(projects: list[dict[str, Any]]) -> str:
    return ", ".join(str(row["slug"]) for row in projects) or "none yet"
