"""The port command: a port of a job's replica on this machine's loopback."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer

from portal.cli.client import api_path
from portal.cli.context import cli_context
from portal.cli.progress import fetch_job
from portal.cli.text import single_line


def add_to(app: typer.Typer) -> None:
    app.command()(port)


def port(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    port: Annotated[int, typer.Argument(min=1, max=65_535, help="where the job listens")],
    local: Annotated[
        int | None,
        typer.Option("--local", "-l", min=0, max=65_535, help="here; default: the same"),
    ] = None,
    rank: Annotated[int, typer.Option("--rank", "-r", min=0, help="rank of a replica")] = 0,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="one connection on stdin and stdout, for ssh")
    ] = False,
) -> None:
    """Reach a port of your running job at a port of this machine, until Ctrl-C."""
    # Late: what WebSockets need would make every other command start later.
    from portal.cli.port_forward import PortForward  # noqa: PLC0415

    cli = cli_context(context)
    row = fetch_job(cli.client, job)
    path = api_path("jobs", str(row["id"]), "ports", str(port))
    url = f"{cli.access.url}/api/v1/{path}?rank={rank}"
    here = port if local is None else local
    forward = PortForward(cli.access, url, f"{single_line(row['id'])} port {port}", here)
    with suppress(KeyboardInterrupt):
        asyncio.run(forward.run_on_stdio() if stdio else forward.run())
