"""submit: flags, YAML or a Slurm script in; a job out, followed until it runs or is over."""

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli import job_text as words
from portal.cli import request_builder as request
from portal.cli.context import CliContext, cli_context
from portal.cli.dry_run_text import dry_run_facts, verdict_name
from portal.cli.exit_codes import CommandFailed, ExitCode, exit_code_for
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
from portal.cli.sbatch import is_script
from portal.cli.text import single_line

# What a shell says of a program that Ctrl-C ended.
INTERRUPTED = 130
DEVICE, WHERE, WHEN, AFTER = "The device", "Where it runs", "When it runs", "After submitting"
LONGEST_FILE = 1 << 20


def add_to(app: typer.Typer) -> None:
    settings = {"allow_interspersed_args": False}
    app.command(context_settings=settings)(submit)


def submit(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(help="-- COMMAND..., or a script with an #SBATCH header")
    ] = None,
    file: Annotated[
        str,
        typer.Option("--file", "-f", help="YAML or a script with an #SBATCH header; - is stdin"),
    ] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="or TESSERA_PROJECT")] = "",
    name: Annotated[str, typer.Option("--name", "-J", "--job-name")] = "",
    image: Annotated[str, typer.Option("--image", "-i", help="or TESSERA_IMAGE")] = "",
    kind: Annotated[str, typer.Option(help="batch, notebook or service")] = "",
    gpus: Annotated[
        int | None, typer.Option("--gpus", "-g", help="whole GPUs", rich_help_panel=DEVICE)
    ] = None,
    mig: Annotated[
        str, typer.Option("--mig", "--profile", help="such as 2g.35gb", rich_help_panel=DEVICE)
    ] = "",
    mps: Annotated[
        str, typer.Option(help="percent:memory, such as 25:20GiB", rich_help_panel=DEVICE)
    ] = "",
    gpu_memory: Annotated[
        str, typer.Option(help="whatever has so much, such as 24GiB", rich_help_panel=DEVICE)
    ] = "",
    model: Annotated[
        list[str] | None, typer.Option(help="such as H200; repeatable", rich_help_panel=DEVICE)
    ] = None,
    isolation: Annotated[
        str, typer.Option(help="hardware, or any: MPS too", rich_help_panel=DEVICE)
    ] = "",
    nodes: Annotated[
        int | None, typer.Option("--nodes", "--replicas", "-N", help="replicas, all or none")
    ] = None,
    launcher: Annotated[str, typer.Option(help="none or torchrun")] = "",
    processes: Annotated[
        int | None, typer.Option("--processes", "--ntasks-per-node", help="of a replica")
    ] = None,
    cpu: Annotated[
        str, typer.Option("--cpu", "--cpus-per-task", "-c", help="cores, such as 8")
    ] = "",
    memory: Annotated[str, typer.Option("--memory", "--mem", help="such as 64GiB")] = "",
    shm: Annotated[str, typer.Option(help="shared memory")] = "",
    backend: Annotated[str, typer.Option(help="auto, nccl or gloo")] = "",
    disk: Annotated[str, typer.Option(help="of its node, such as 200GiB")] = "",
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="NAME=VALUE, or NAME as it is here")
    ] = None,
    topology: Annotated[
        str, typer.Option(help="best, same-node, nvlink, any", rich_help_panel=WHERE)
    ] = "",
    needs: Annotated[
        list[str] | None, typer.Option(help="a node's label; repeatable", rich_help_panel=WHERE)
    ] = None,
    tolerates: Annotated[
        list[str] | None, typer.Option(help="a node's taint; repeatable", rich_help_panel=WHERE)
    ] = None,
    time: Annotated[
        str, typer.Option("--time", "-t", help="limit: 4h, or 4:00:00", rich_help_panel=WHEN)
    ] = "",
    priority: Annotated[str, typer.Option(help="low, normal, high", rich_help_panel=WHEN)] = "",
    preemptible: Annotated[
        bool | None, typer.Option(help="may be stopped for others", rich_help_panel=WHEN)
    ] = None,
    grace: Annotated[str, typer.Option(help="to stop in, such as 30s", rich_help_panel=WHEN)] = "",
    retries: Annotated[
        int | None, typer.Option(help="after a fault of a node", rich_help_panel=WHEN)
    ] = None,
    user_retries: Annotated[
        int | None, typer.Option(help="after a failure of its own", rich_help_panel=WHEN)
    ] = None,
    begin: Annotated[str, typer.Option(help="not before, such as +2h", rich_help_panel=WHEN)] = "",
    after: Annotated[
        list[str] | None, typer.Option(help="J-12 must succeed first", rich_help_panel=WHEN)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only what the planner says", rich_help_panel=AFTER)
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="do not ask", rich_help_panel=AFTER)
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="do not follow", rich_help_panel=AFTER)
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", "-W", help="end with the job's own code", rich_help_panel=AFTER),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(help="seconds to wait at most; then code 6", rich_help_panel=AFTER),
    ] = None,
    key: Annotated[
        str,
        typer.Option(help="Idempotency-Key: the same again is one job", rich_help_panel=AFTER),
    ] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Ask for a job (sbatch). A full cluster never refuses: it queues.

    tessera submit --gpus 2 --time 4h --image pytorch:2.7 -- python train.py
    """
    at_hand = cli_context(context)
    base, arguments = _base(file, command or [])
    flags = {
        "project": project,
        "name": name,
        "image": image,
        "kind": kind,
        "command": None if file or base else arguments,
        "launcher": launcher,
        "replicas": nodes,
        "processes": processes,
        "device": request.device_from_flags(
            gpus=gpus,
            mig=mig,
            mps=mps,
            gpu_memory=gpu_memory,
            models=model,
            isolation=isolation,
        ),
        "cpu": cpu,
        "memory": request.binary_memory(memory),
        "shm": request.binary_memory(shm),
        "disk": request.binary_memory(disk),
        "time_limit": request.parse_time_limit(time),
        "priority": priority,
        "topology": topology,
        "backend": backend,
        "grace": grace,
        "retries": request.retries_from_flags(retries, user_retries),
        "env": request.environment_from_flags(env or [], at_hand.env),
        "preemptible": preemptible,
        "begin_at": begin,
        "after": after,
        "needs": needs,
        "tolerates": tolerates,
    }
    flags = {name: None if value == "" else value for name, value in flags.items()}
    body = request.merge_flags(base, flags)
    if "project" not in body:
        body["project"] = _project(at_hand)
    if "image" not in body and (usual := at_hand.env.get("TESSERA_IMAGE")):
        body["image"] = usual
    if dry_run:
        _dry_run(at_hand, body, output)
        return
    if not yes and at_hand.is_interactive() and not _is_wanted(at_hand, body):
        print_message("Nothing was submitted.")
        raise typer.Exit(ExitCode.FAILURE)
    job = at_hand.client.post("jobs", body, key=key or str(uuid.uuid4()))
    print_message(f"Submitted {single_line(job['id'])} to {single_line(job['project'])}")
    if wait:
        job = _waited(at_hand, job, timeout)
        print_row(job, output)
        raise typer.Exit(words.job_exit_code(job))
    print_row(job, output)
    if not detach and is_terminal(sys.stderr) and output in (OutputFormat.TABLE, OutputFormat.WIDE):
        _followed(at_hand, job, timeout)


def _base(file: str, command: list[str]) -> tuple[dict[str, Any], list[str]]:
    """What a file asks for, and the words that are left for the command."""
    if not file and not (command and _has_header(command[0])):
        return {}, command
    path = file or command[0]
    arguments = command if file else command[1:]
    found = request.read_request_file(
        _text(path), "stdin" if path == "-" else Path(path).name, arguments
    )
    for line in found.ignored:
        print_message(f"Ignored: {single_line(line)}")
    return found.fields, arguments


def _has_header(word: str) -> bool:
    path = Path(word)
    try:
        if not path.is_file() or path.stat().st_size > LONGEST_FILE:
            return False
        text = path.read_text()
    except (OSError, ValueError):
        return False
    return "#SBATCH" in text and is_script(text)


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, ValueError) as wrong:
        sentence = f"{path} cannot be read: {getattr(wrong, 'strerror', None) or wrong}"
        raise CommandFailed(
            "file_unreadable", sentence, "tessera submit --help", ExitCode.USAGE
        ) from wrong


def _project(at_hand: CliContext) -> str:
    """The kept one, or the only one there is."""
    if at_hand.access.project:
        return at_hand.access.project
    names = [str(row["slug"]) for row in at_hand.client.rows("projects") if not row["archived"]]
    if len(names) != 1:
        told = f"one of yours: {', '.join(names)}" if names else "you are in none yet: ask an admin"
        raise CommandFailed("usage", f"Say --project, {told}", "tessera whoami", ExitCode.USAGE)
    return names[0]


def _dry_run(at_hand: CliContext, body: dict[str, Any], output: OutputFormat) -> None:
    answer = at_hand.client.post("jobs", body, is_repeatable=True, dry_run="true")
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_data(answer, output)
    elif output is OutputFormat.NAME:
        typer.echo(single_line(verdict_name(answer)))
    else:
        console(sys.stdout).print(facts_table(dry_run_facts(answer, at_hand.now())))
    if not answer["possible"]:
        raise typer.Exit(exit_code_for(400, str((answer.get("reason") or {}).get("code", ""))))


def _is_wanted(at_hand: CliContext, body: dict[str, Any]) -> bool:
    """Show what the planner says, and ask. What can never run is refused by submit itself."""
    answer = at_hand.client.post("jobs", body, is_repeatable=True, dry_run="true")
    if not answer["possible"]:
        return True
    console(sys.stderr).print(facts_table(dry_run_facts(answer, at_hand.now())))
    return bool(typer.confirm("Submit?", default=True, err=True))


def _waited(at_hand: CliContext, job: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    try:
        job = wait_for_job(at_hand, job, until=is_over, seconds=timeout)
    except KeyboardInterrupt:
        _tell_detached(job)
        raise typer.Exit(INTERRUPTED) from None
    print_message(words.end_summary(job))
    return job


def _followed(at_hand: CliContext, job: dict[str, Any], timeout: float | None) -> None:
    """Until it runs. Ctrl-C only stops looking."""
    try:
        job = wait_for_job(at_hand, job, until=has_started, seconds=timeout)
    except KeyboardInterrupt:
        _tell_detached(job)
        return
    if is_over(job):
        print_message(words.end_summary(job))
        if job["status"] != "succeeded":
            raise typer.Exit(words.job_exit_code(job))
        return
    print_message(
        f"{single_line(job['id'])} runs. Its log: tessera logs -f {single_line(job['id'])}"
    )


def _tell_detached(job: dict[str, Any]) -> None:
    label = single_line(job["id"])
    back = f"tessera why {label}, tessera logs -f {label}"
    print_message(f"\n{label} goes on without you. Come back with: {back}")
