"""The shell command: a terminal in a replica of a running job."""

import asyncio
import re
from typing import Annotated

import typer

from portal.cli.client import api_path
from portal.cli.context import cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import print_message
from portal.cli.progress import fetch_job
from portal.cli.text import single_line


def add_to(app: typer.Typer) -> None:
    app.command()(shell)


def shell(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    rank: Annotated[int, typer.Option("--rank", "-r", min=0, help="rank of a replica")] = 0,
    program: Annotated[
        str, typer.Option("--shell", help="its path in the job; default: bash, else sh")
    ] = "",
) -> None:
    """Open a terminal in your running job. Enter ~. leaves it; the exit code is the shell's."""
    # Late: what WebSockets need would make every other command start later.
    from portal.cli.job_terminal import (  # noqa: PLC0415
        PROGRAM_PATTERN,
        JobTerminal,
        end_sentence,
        run_terminal,
    )

    if program and not re.fullmatch(PROGRAM_PATTERN, program):
        sentence = "--shell is the path of a program in the job, such as /bin/zsh"
        raise CommandFailed("usage", sentence, "", ExitCode.USAGE)
    cli = cli_context(context)
    row = fetch_job(cli.client, job)
    url = f"{cli.access.url}/api/v1/{api_path('jobs', str(row['id']), 'terminal')}?rank={rank}"
    terminal = JobTerminal(cli.access, url, single_line(row["id"]), program)
    why, exit_code = asyncio.run(run_terminal(terminal))
    if sentence := end_sentence(why):
        print_message(sentence)
        exit_code = ExitCode.FAILURE
    raise typer.Exit(exit_code)
