"""submit: flags, YAML or a Slurm script in; a job out, followed until it runs or has ended."""

import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from portal.cli.as_command import as_command
from portal.cli.code_folder import CodeFolder, read_code_folder
from portal.cli.code_upload import sync_sentence, upload_code
from portal.cli.commands import submit_options as opt
from portal.cli.commands.bulk_submit import BulkSubmitMode, bulk_submit
from portal.cli.context import CliContext, cli_context
from portal.cli.dry_run_text import dry_run_facts, launch_facts, verdict_name
from portal.cli.exit_codes import CommandFailed, ExitCode, exit_code_for
from portal.cli.job_text import end_summary, job_exit_code
from portal.cli.output import (
    OutputFormat,
    OutputOption,
    console,
    facts_table,
    is_terminal,
    print_data,
    print_message,
    print_row,
)
from portal.cli.progress import has_started, is_over, wait_for_job
from portal.cli.request_builder import (
    merge_flags,
    read_request_file,
    read_request_stream,
)
from portal.cli.sbatch import is_script, job_name
from portal.cli.text import single_line
from scheduler.core.request_fields import SPELLINGS

# The exit code of a program that was ended by Ctrl-C, as shells report it.
INTERRUPTED = 130
MAX_FILE_BYTES = 1 << 20


def add_to(app: typer.Typer) -> None:
    settings = {"allow_interspersed_args": False}
    app.command(cls=opt.SubmitCommand, context_settings=settings)(submit)


@opt.with_request_options
def submit(
    context: typer.Context,
    command: opt.Command = None,
    file: opt.File = "",
    sync: opt.Sync = "",
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    count: opt.Count = 1,
    detach: opt.Detach = False,
    wait: opt.Wait = False,
    timeout: opt.Timeout = None,
    key: opt.Key = "",
    output: OutputOption = OutputFormat.TABLE,
    **options: Any,
) -> None:
    """Submit a job (sbatch). On a full cluster it is queued, never refused.

    tessera submit --gpus 2 --time 4h --image pytorch:2.7 -- python train.py

    tessera submit --sync . --gpus 1 -- python train.py
    """
    cli = cli_context(context)
    flags = opt.request_fields(options, cli.env)
    folder = _code_folder(sync, flags) if sync else None
    if (stream := _stream(file)) or count > 1:
        _refuse_for_many(command if stream else None, is_waiting=wait)
        bodies = [_completed(cli, merge_flags(base, flags)) for base in stream]
        bodies = bodies or [_request(cli, file, command or [], flags)]
        if folder:
            _send_code(cli, bodies, folder)
        bulk_submit(cli, bodies, count, BulkSubmitMode(dry_run, yes, key, output))
        return
    body = _request(cli, file, command or [], flags)
    if folder:
        _send_code(cli, [body], folder)
    with _corrected_command(body, cli.env):
        if dry_run:
            _show_dry_run(cli, body, output)
            return
        if not yes and cli.is_interactive() and not _is_confirmed(cli, body):
            print_message("Nothing was submitted.")
            raise typer.Exit(ExitCode.FAILURE)
        job = cli.client.post("jobs", body, key=key or str(uuid.uuid4()))
    for warning in job.pop("warnings", []):
        print_message(f"Warning: {single_line(warning['sentence'])}")
    if array := job.get("array"):
        label = single_line(array["id"])
        print_message(f"Submitted {label} to {single_line(job['project'])}. Its first member:")
        print_row(job, output)
        return
    print_message(f"Submitted {single_line(job['id'])} to {single_line(job['project'])}")
    if wait:
        job = _wait_for_end(cli, job, timeout)
        print_row(job, output)
        raise typer.Exit(job_exit_code(job))
    print_row(job, output)
    if not detach and is_terminal(sys.stderr) and output in (OutputFormat.TABLE, OutputFormat.WIDE):
        _follow_until_start(cli, job, timeout)


def _code_folder(sync: str, flags: Mapping[str, Any]) -> CodeFolder:
    """Read before anything is sent. Raises CommandFailed."""
    if "code" in flags:
        sentence = "--sync sends new code and --code names code that was sent: use one of them"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
    return read_code_folder(Path(sync))


def _send_code(cli: CliContext, bodies: list[dict[str, Any]], folder: CodeFolder) -> None:
    """Send the folder once to each project, and name it in the requests."""
    for project in dict.fromkeys(str(body["project"]) for body in bodies):
        tree = upload_code(cli.client, project, folder)
        print_message(sync_sentence(folder, tree))
        for body in bodies:
            if str(body["project"]) == project:
                body["code"] = tree


@contextmanager
def _corrected_command(body: dict[str, Any], own: Mapping[str, str]) -> Iterator[None]:
    """If the portal suggests a corrected request, the next command submits that one."""
    try:
        yield
    except CommandFailed as failed:
        # With other errors it would be refused again; a field in REST's spelling has no flag.
        if failed.suggestion and len(failed.fields) == 1 and not SPELLINGS.keys() & body.keys():
            # A value of this shell's environment may be a secret: its name is enough to pass it on.
            values = body.get("env", {}).items()
            env = {name: None if own.get(name) == text else text for name, text in values}
            command = as_command(body | {"env": env} | dict(failed.suggestion))
            # Control characters of an argument could change what the terminal shows.
            failed.next_command = command if command.isprintable() else failed.next_command
        raise


def _request(
    cli: CliContext, file: str, command: list[str], flags: dict[str, Any]
) -> dict[str, Any]:
    """The request of the file or script, with the flags and the defaults of the environment."""
    base, arguments = _read_base(file, command)
    if not file and not base:
        flags = flags | {"command": arguments}
    return _completed(cli, merge_flags(base, flags))


def _refuse_for_many(command: list[str] | None, *, is_waiting: bool) -> None:
    """Raises CommandFailed(usage) for what makes sense for one job only."""
    sentence = "--wait follows one job: see many with tessera ps" if is_waiting else ""
    if command:
        sentence = "A file of several requests takes no command: write it in each of them"
    if sentence:
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)


def _stream(file: str) -> list[dict[str, Any]]:
    """The requests of a file with more than one; empty for any other. Standard input is one."""
    if not file or file == "-":
        return []
    text = _read_text(file)
    return [] if is_script(text) else read_request_stream(text, Path(file).name)


def _completed(cli: CliContext, body: dict[str, Any]) -> dict[str, Any]:
    """The request with the defaults of the environment."""
    if "project" not in body:
        body["project"] = cli.default_project()
    if "image" not in body and (image := cli.env.get("TESSERA_IMAGE")):
        body["image"] = image
    if "name" not in body and body.get("image"):
        # As for a request without a command: its image says best what it is.
        body["name"] = job_name(str(body["image"]).rpartition("/")[2].partition(":")[0])
    return body


def _read_base(file: str, command: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The request of a file or script, and the remaining words of the command."""
    if not file and not (command and _has_header(command[0])):
        return {}, command
    path = file or command[0]
    arguments = command if file else command[1:]
    imported = read_request_file(
        _read_text(path), "stdin" if path == "-" else Path(path).name, arguments
    )
    for line in imported.ignored:
        print_message(f"Ignored: {single_line(line)}")
    return imported.fields, arguments


def _has_header(word: str) -> bool:
    path = Path(word)
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return False
        text = path.read_text()
    except (OSError, ValueError):
        return False
    return "#SBATCH" in text and is_script(text)


def _read_text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, ValueError) as error:
        sentence = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise CommandFailed(
            "file_unreadable", sentence, "tessera submit --help", ExitCode.USAGE
        ) from error


def _show_dry_run(cli: CliContext, body: dict[str, Any], output: OutputFormat) -> None:
    answer = cli.client.post("jobs", body, is_repeatable=True, dry_run="true")
    if output.is_data:
        print_data(answer, output)
    elif output is OutputFormat.NAME:
        typer.echo(single_line(verdict_name(answer)))
    else:
        facts = [*dry_run_facts(answer, cli.now()), *launch_facts(answer)]
        console(sys.stdout).print(facts_table(facts))
    if not answer["possible"]:
        raise typer.Exit(exit_code_for(400, str((answer.get("reason") or {}).get("code", ""))))


def _is_confirmed(cli: CliContext, body: dict[str, Any]) -> bool:
    """Show the dry run and ask. An impossible request is left to the submit to refuse."""
    answer = cli.client.post("jobs", body, is_repeatable=True, dry_run="true")
    if not answer["possible"]:
        return True
    console(sys.stderr).print(facts_table(dry_run_facts(answer, cli.now())))
    return bool(typer.confirm("Submit?", default=True, err=True))


def _wait_for_end(cli: CliContext, job: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    try:
        job = wait_for_job(cli, job, until=is_over, seconds=timeout)
    except KeyboardInterrupt:
        _print_detached(job)
        raise typer.Exit(INTERRUPTED) from None
    print_message(end_summary(job))
    return job


def _follow_until_start(cli: CliContext, job: dict[str, Any], timeout: float | None) -> None:
    """Follow the job until it runs. Ctrl-C only stops following."""
    try:
        job = wait_for_job(cli, job, until=has_started, seconds=timeout)
    except KeyboardInterrupt:
        _print_detached(job)
        return
    if is_over(job):
        print_message(end_summary(job))
        if job["status"] != "succeeded":
            raise typer.Exit(job_exit_code(job))
        return
    label = single_line(job["id"])
    print_message(f"{label} is running. To read its log: tessera logs -f {label}")


def _print_detached(job: dict[str, Any]) -> None:
    label = single_line(job["id"])
    back = f"tessera why {label}, tessera logs -f {label}"
    print_message(f"\n{label} continues. To follow it again: {back}")
