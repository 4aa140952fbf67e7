"""The ssh command: the user's own OpenSSH in a replica of a running job, and its configuration."""

import asyncio
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from portal.cli.context import cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import print_message
from portal.cli.progress import fetch_job
from portal.cli.text import single_line

# What follows the job is ssh's, but for our own options directly behind it.
SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": True}
Rank = Annotated[int, typer.Option("--rank", "-r", min=0, help="rank of a replica")]


def add_to(app: typer.Typer) -> None:
    app.command(context_settings=SETTINGS)(ssh)
    app.command("ssh-proxy", hidden=True)(ssh_proxy)


def ssh(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[SSH ARGUMENTS]", help="as `ssh` takes them")
    ] = None,
    rank: Rank = 0,
    config: Annotated[
        bool, typer.Option("--config", help="print a block for ~/.ssh/config: scp, rsync, editors")
    ] = False,
) -> None:
    """Run ssh in your running job: tessera ssh J-12 [--rank 3] [-L 8080:localhost:80] [COMMAND]."""
    # Late: what WebSockets need would make every other command start later.
    from portal.cli.job_ssh import JobSsh  # noqa: PLC0415
    from portal.cli.ssh_client import (  # noqa: PLC0415
        SshFolder,
        config_block,
        host_name,
        keys_folder,
        ssh_command,
        ssh_options,
    )

    cli = cli_context(context)
    rank, config, words = _own_options(rank, config, list(arguments or ()))
    label = single_line(fetch_job(cli.client, job)["id"])
    name = host_name(label, rank)
    with tempfile.TemporaryDirectory(prefix="tessera-ssh-") as path:
        folder = keys_folder(cli.env) if config else SshFolder(Path(path))
        folder.make_key()
        login = asyncio.run(JobSsh(cli.access, label, rank, folder).login())
        options = ssh_options(folder, label, rank, login)
        if config:
            typer.echo(config_block(options, name))
            print_message(f"Append this to ~/.ssh/config; then: ssh {name}, scp FILE {name}:")
            return
        code = _run(ssh_command(options, name, words))
    raise typer.Exit(code)


def ssh_proxy(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    keys: Annotated[Path, typer.Option("--keys", help="the folder of the client's key")],
    rank: Rank = 0,
) -> None:
    """Carry one connection between ssh, on standard input and output, and a job: ProxyCommand."""
    from portal.cli.job_ssh import JobSsh  # noqa: PLC0415
    from portal.cli.ssh_client import SshFolder  # noqa: PLC0415

    with suppress(KeyboardInterrupt):
        connection = JobSsh(cli_context(context).access, job, rank, SshFolder(keys))
        asyncio.run(connection.run_on_stdio())


def _own_options(rank: int, config: bool, words: list[str]) -> tuple[int, bool, list[str]]:
    """Those that were written directly behind the job, and the words of ssh. Raises
    CommandFailed."""
    while words and words[0] in ("--rank", "-r", "--config"):
        if words[0] == "--config":
            config = True
        elif len(words) > 1 and words[1].isdecimal():
            rank = int(words.pop(1))
        else:
            sentence = "--rank is a whole number, 0 or more"
            raise CommandFailed("usage", sentence, "tessera ssh J-12 --rank 3", ExitCode.USAGE)
        words = words[1:]
    return rank, config, words


def _run(command: list[str]) -> int:
    """Its exit code. Keys go to it alone: Ctrl-C ends what it runs, and not this."""
    with subprocess.Popen(command) as running:  # noqa: S603 - ssh, with the user's own words
        while True:
            with suppress(KeyboardInterrupt):
                code = running.wait()
                return code if code >= 0 else 128 - code
