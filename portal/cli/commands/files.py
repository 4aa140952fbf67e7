"""The commands for files of jobs: files, cp, rm."""

from typing import Annotated

import typer

from portal.cli.client import api_path
from portal.cli.context import cli_context
from portal.cli.file_download import download
from portal.cli.job_files import (
    FileTarget,
    TreeChoice,
    chosen_tree,
    code_tree,
    file_targets,
    make_folders,
    split_source,
    tree_files,
)
from portal.cli.output import Column, OutputFormat, OutputOption, print_message, print_rows
from portal.cli.progress import StatusLine
from portal.cli.text import single_line

COLUMNS = [
    Column("PATH", lambda row: single_line(row["path"])),
    Column("SIZE", lambda row: row["size"]),
    Column("SHA-256", lambda row: row["sha256"], wide=True),
]
CheckpointOption = Annotated[
    bool, typer.Option("--checkpoint", help="the newest checkpoint instead of the output")
]
AttemptOption = Annotated[
    int | None, typer.Option("--attempt", min=1, help="of this attempt; default: the newest")
]
RankOption = Annotated[int | None, typer.Option("--rank", "-r", min=0, help="of this replica")]


def add_to(app: typer.Typer) -> None:
    for command in (files, cp, rm):
        app.command()(command)


def files(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    checkpoint: CheckpointOption = False,
    attempt: AttemptOption = None,
    rank: RankOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the files that a job wrote: its output, or its newest checkpoint."""
    client = cli_context(context).client
    tree = chosen_tree(client, job, TreeChoice(checkpoint, attempt, rank))
    print_rows(tree_files(client, tree), COLUMNS, output, name="path", empty="It has no files.")


def cp(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="JOB:PATH of a file or folder; JOB: for all files")],
    destination: Annotated[str, typer.Argument(help="a folder or a file here")],
    checkpoint: CheckpointOption = False,
    attempt: AttemptOption = None,
    rank: RankOption = None,
) -> None:
    """Copy what a job wrote to this machine; the same command again goes on where it was cut."""
    client = cli_context(context).client
    job, path = split_source(source)
    tree = chosen_tree(client, job, TreeChoice(checkpoint, attempt, rank))
    targets = file_targets(tree_files(client, tree), path, destination)
    make_folders(targets, destination)
    meter = _Meter(targets)
    try:
        copied = [download(client, str(tree["id"]), each, meter.add) for each in targets]
    finally:
        meter.line.clear()
    there = copied.count(False)
    text = f"{len(targets)} file{'s' if len(targets) > 1 else ''}, {meter.total_text}"
    print_message(f"{text}; {there} there already" if there else text)


def rm(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    checkpoint: CheckpointOption = False,
    code: Annotated[
        bool, typer.Option("--code", help="the code that it ran, of all jobs with it")
    ] = False,
    attempt: AttemptOption = None,
    rank: RankOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask to confirm")] = False,
) -> None:
    """Remove the files that a job wrote: its output, or its newest checkpoint, or its code."""
    client = cli_context(context).client
    if code:
        tree = code_tree(client, job)
    else:
        tree = chosen_tree(client, job, TreeChoice(checkpoint, attempt, rank))
    mib = f"{tree['total_bytes'] / (1 << 20):,.1f} MiB"
    what = f"{tree['kind']} of {job}: {tree['file_count']} files, {mib}"
    if not yes:
        typer.confirm(f"Remove the {what}?", abort=True, err=True)
    client.call("DELETE", api_path("trees", str(tree["id"])), hint=f"tessera files {job}")
    print_message(f"removed the {what}")


class _Meter:
    """How much of all files is there, as a line."""

    def __init__(self, targets: list[FileTarget]) -> None:
        self.line = StatusLine()
        self._total = sum(each.size for each in targets)
        self._there = 0

    @property
    def total_text(self) -> str:
        return f"{self._total / (1 << 20):,.1f} MiB"

    def add(self, size: int) -> None:
        self._there += size
        percent = 100 * self._there // self._total if self._total else 100
        self.line.show(f"Copying: {percent} % of {self.total_text}", key=percent // 25)
