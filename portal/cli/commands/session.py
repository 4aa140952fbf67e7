"""login, logout, whoami."""

import sys
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
)
from portal.cli.context import CliContext, cli_context
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
    project: Annotated[str, typer.Option(help="the project that submit takes by itself")] = "",
) -> None:
    """Keep the portal's address and your API token (made on its Account page)."""
    at_hand = cli_context(context)
    kept = stored_access(at_hand.env)
    address = parse_url(url or at_hand.env.get("TESSERA_URL", "") or kept.url or _asked(at_hand))
    if is_unencrypted(address):
        print_message(f"Note: {address} is not https: whoever listens on the way reads the token.")
    token = _token(at_hand, token_stdin, address)
    who = PortalAccess(address, token, project or (kept.project if address == kept.url else ""))
    projects = at_hand.client_for(who).get("me")["projects"]
    if project and project not in {row["slug"] for row in projects}:
        sentence = f"{project!r} is not among your projects: {_names(projects)}"
        raise CommandFailed(
            "project_unknown", sentence, "tessera login, without --project", ExitCode.USAGE
        )
    path = store_access(at_hand.env, who)
    print_message(f"Signed in to {address}. Kept in {path}. Your projects: {_names(projects)}")
    if at_hand.env.get("TESSERA_TOKEN") or at_hand.env.get("TESSERA_URL"):
        print_message(
            "Note: TESSERA_URL and TESSERA_TOKEN of the environment win over what is kept."
        )


def logout(
    context: typer.Context,
    revoke: Annotated[
        bool, typer.Option(help="delete the token on the portal too; needs a token of scope admin")
    ] = False,
) -> None:
    """Forget the address and the token."""
    at_hand = cli_context(context)
    if revoke:
        who = load_access(replace_env(at_hand, "TESSERA_TOKEN"))
        client = at_hand.client_for(who)
        token = client.get("me")["token"]
        client.call("DELETE", f"tokens/{token['id']}", hint="tessera logout")
    was_there = delete_access(at_hand.env)
    print_message(
        "Signed out." if was_there else f"Nothing was kept in {config_path(at_hand.env)}."
    )
    if at_hand.env.get("TESSERA_TOKEN"):
        print_message("Note: TESSERA_TOKEN is still in the environment.")


def whoami(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """The portal, who you are, the token with its scope and end, and your projects."""
    at_hand = cli_context(context)
    mine = at_hand.client.get("me")
    token, projects = mine["token"], mine["projects"]
    found = {
        "url": at_hand.access.url,
        "user": mine["user"],
        "token": token,
        "projects": [str(row["slug"]) for row in projects],
        "project": at_hand.access.project or None,
    }
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_data(found, output)
        return
    if output is OutputFormat.NAME:
        typer.echo(mine["user"])
        return
    end = parse_time(token["expires_at"])
    pairs = [
        ("Portal", at_hand.access.url),
        ("User", mine["user"] + (" (platform admin)" if mine["is_platform_admin"] else "")),
        ("Token", f"{token['name']} ({token['id']}…)"),
        ("Scope", token["scope"]),
        ("Expires", clock_text(end, at_hand.now()) if end else "never"),
        ("Projects", ", ".join(f"{row['slug']} ({row['role']})" for row in projects) or "none yet"),
        ("Submits to", at_hand.access.project),
    ]
    console(sys.stdout).print(facts_table(pairs))


def replace_env(at_hand: CliContext, without: str) -> dict[str, str]:
    return {name: value for name, value in at_hand.env.items() if name != without}


def _asked(at_hand: CliContext) -> str:
    if not at_hand.is_interactive():
        raise CommandFailed(
            "usage", "Say the portal's address", "tessera login URL", ExitCode.USAGE
        )
    return str(typer.prompt("Address of the portal", err=True))


def _token(at_hand: CliContext, from_stdin: bool, address: str) -> str:
    if from_stdin:
        token = sys.stdin.readline().strip()
    elif at_hand.is_interactive():
        print_message(f"Make a token at {address}/account/ and paste it here; it is not shown.")
        token = str(typer.prompt("Token", hide_input=True, err=True)).strip()
    else:
        token = at_hand.env.get("TESSERA_TOKEN", "").strip()
    if not token:
        sentence = "There is no token to keep"
        raise CommandFailed(
            "usage", sentence, "tessera login URL --token-stdin < FILE", ExitCode.USAGE
        )
    return token


def _names(projects: list[dict[str, Any]]) -> str:
    return ", ".join(str(row["slug"]) for row in projects) or "none yet"
