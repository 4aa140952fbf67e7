"""Commands that read jobs: ps, why, show, events."""

import sys
from typing import Annotated, Any

import typer
from rich.live import Live

from portal.cli.client import api_path
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import (
    FINAL_STATUSES,
    LIVE_STATUSES,
    REPLICA_COLUMNS,
    Row,
    diagnosis_facts,
    finding_text,
    job_columns,
    job_facts,
    listed_label,
)
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    console,
    facts_table,
    is_terminal,
    print_data,
    print_message,
    print_rows,
    rows_table,
)
from portal.cli.progress import fetch_job
from portal.cli.text import bound_text, clock_text, expected_start_text, parse_time, single_line

WATCH_EVERY = 2.0
DEFAULT_LIMIT = 200


def add_to(app: typer.Typer) -> None:
    for command in (ps, why, show, events):
        app.command()(command)


def ps(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="include jobs that have ended")
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--everyone", "-A", help="jobs of everyone, as far as you may see them")
    ] = False,
    project: Annotated[str, typer.Option("--project", "-p")] = "",
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", help="only these states; repeatable")
    ] = None,
    name: Annotated[str, typer.Option(help="part of the name")] = "",
    cause: Annotated[
        list[str] | None,
        typer.Option("--cause", help="only jobs that failed by these, such as gpu_memory"),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="only jobs whose last value is so, such as loss<0.3; quote it")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = DEFAULT_LIMIT,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="refresh until Ctrl-C")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List your waiting and running jobs, newest first (squeue)."""
    cli = cli_context(context)
    query: dict[str, Any] = {
        "mine": None if everyone else "true",
        "project": project,
        "name": name,
        "status": state or ([] if everything or cause or metric else list(LIVE_STATUSES)),
        "cause": cause or [],
        "metric": metric,
        "page_size": min(limit, 200),
    }
    if watch and is_terminal(sys.stdout) and output in (OutputFormat.TABLE, OutputFormat.WIDE):
        _watch(cli, query, limit, wide=output is OutputFormat.WIDE)
        return
    while True:
        rows = cli.client.rows("jobs", limit, **query)
        if output is OutputFormat.NAME:
            rows = [{**row, "id": listed_label(row)} for row in rows]
        empty = "No jobs." if everything else "No waiting or running jobs. For all: tessera ps -a"
        print_rows(rows, job_columns(cli.now()), output, empty=empty)
        if len(rows) == limit:
            print_message(f"Showing the newest {limit}; use --limit for more.")
        if not watch:
            return
        sys.stdout.flush()
        cli.pause(WATCH_EVERY)


def why(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Explain why a job waits, until when, and what would let it start sooner; or why it failed."""
    cli = cli_context(context)
    row = fetch_job(cli.client, job)
    if output.is_data:
        names = (
            *("id", "status", "reason", "position", "estimate", "no_estimate", "bound"),
            *("diagnosis", "result"),
        )
        print_data({name: row.get(name) for name in names}, output)
        return
    if output is OutputFormat.NAME:
        cause = (row.get("diagnosis") or {}).get("cause", "")
        typer.echo(single_line((row.get("reason") or {}).get("code", cause)))
        return
    console(sys.stdout).print(facts_table(_explained(row, cli)))
    alternatives = (row.get("reason") or {}).get("alternatives") or []
    for number, alternative in enumerate(alternatives, 1):
        typer.echo(f"  {number}. {single_line(alternative['sentence'])}")
    if alternatives:
        typer.echo(f"To use one: tessera replace {single_line(row['id'])} NUMBER")


def show(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show a job: its request, where it runs and how it ended."""
    cli = cli_context(context)
    row = fetch_job(cli.client, job)
    if output.is_data:
        print_data(row, output)
        return
    if output is OutputFormat.NAME:
        typer.echo(single_line(row["id"]))
        return
    screen = console(sys.stdout)
    screen.print(facts_table(job_facts(row, cli.now())))
    attempts = row["attempts"] if output is OutputFormat.WIDE else row["attempts"][-1:]
    for attempt in attempts:
        outcome = f", {attempt['outcome']}" if attempt["outcome"] else ""
        joined = attempt.get("joined_replicas", 1)
        shared = f", {joined} replicas in each container" if joined > 1 else ""
        typer.echo(f"\nAttempt {attempt['number']}{outcome}{shared}")
        if finding := finding_text(attempt):
            typer.echo(finding)
        screen.print(rows_table(attempt["replicas"], REPLICA_COLUMNS))
    if row["status"] in ("failed", "timed_out"):
        print_message(f"To read its log: tessera logs {single_line(row['id'])} --tail 20")


def events(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="follow until the job ends")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the events of a job, oldest first."""
    cli = cli_context(context)
    rows, since = _events(cli, job, 0)
    now = cli.now()
    columns = [
        Column("AT", lambda event: _at(event, now)),
        Column("WHAT", lambda event: event["noun"]),
        Column("CODE", lambda event: event["code"] or event["new"]),
        Column("BY", lambda event: event["actor"]),
        Column("MESSAGE", lambda event: event["sentence"]),
    ]
    print_rows(rows, columns, output, empty="No events yet.")
    while watch and fetch_job(cli.client, job)["status"] not in FINAL_STATUSES:
        cli.pause(WATCH_EVERY)
        rows, since = _events(cli, job, since)
        for event in rows:
            words = (_at(event, now), event["code"] or event["new"], event["sentence"])
            typer.echo("  ".join(single_line(word) for word in words))


def _events(cli: CliContext, job: str, since: int) -> tuple[list[dict[str, Any]], int]:
    """All events after `since`, over the pages of REST, and the last id."""
    rows: list[dict[str, Any]] = []
    while True:
        page = cli.client.get(api_path("jobs", job, "events"), hint="tessera ps -a", since=since)
        rows += page["results"]
        if not page["results"] or page["next_since"] == since:
            return rows, since
        since = page["next_since"]


def _at(event: Row, now: Any) -> str:
    when = parse_time(event["at"])
    return clock_text(when, now) if when else ""


def _watch(cli: CliContext, query: dict[str, Any], limit: int, *, wide: bool) -> None:
    screen = console(sys.stdout)
    try:
        with Live(console=screen, auto_refresh=False, screen=False) as live:
            while True:
                rows = cli.client.rows("jobs", limit, **query)
                live.update(rows_table(rows, job_columns(cli.now()), wide=wide), refresh=True)
                cli.pause(WATCH_EVERY)
    except KeyboardInterrupt:
        return


def _explained(row: Row, cli: CliContext) -> list[tuple[str, object]]:
    reason = row.get("reason") or {}
    if failure := diagnosis_facts(row):
        return [("Job", f"{row['id']} {row['name']}"), ("State", row["status"]), *failure]
    return [
        ("Job", f"{row['id']} {row['name']}"),
        ("State", row["status"]),
        ("Why", reason.get("sentence") or _no_reason(row)),
        ("Code", f"{reason['code']} ({_class(reason)})" if reason.get("code") else ""),
        ("Position", row.get("position")),
        ("Start", expected_start_text(row, cli.now())),
        ("Wait", bound_text(row)),
        ("Based on", (row.get("estimate") or {}).get("basis", "")),
        ("Sooner if", reason.get("unblocks", "")),
    ]


def _class(reason: Row) -> str:
    words = {"wait": "wait", "change": "change your request", "ask": "ask an admin"}
    return words.get(str(reason.get("class")), str(reason.get("class")))


def _no_reason(row: Row) -> str:
    first = ((row.get("result") or {}).get("first_failure") or {}).get("sentence")
    if row["status"] in FINAL_STATUSES:
        return str(first or f"It has ended: {row['stop_reason'] or row['status']}")
    return "It is running" if row["status"] == "running" else "The planner will evaluate it soon"


def pick_alternative(alternatives: list[Any], number: int, job: str) -> Row:
    """The alternative with this number, counted from 1."""
    if not alternatives:
        sentence = f"{job} has no alternatives at the moment"
        raise CommandFailed("no_alternative", sentence, f"tessera why {job}", ExitCode.CONFLICT)
    if not 1 <= number <= len(alternatives):
        sentence = f"{job} has alternatives 1 to {len(alternatives)}"
        raise CommandFailed("no_alternative", sentence, f"tessera why {job}", ExitCode.USAGE)
    alternative: Row = alternatives[number - 1]
    return alternative
