"""ps, why, show, events."""

import sys
from typing import Annotated, Any

import typer
from rich.live import Live

from portal.cli.client import at
from portal.cli.context import Tools, tools
from portal.cli.exit_codes import Exit, Failed
from portal.cli.job_text import ALIVE, OVER, REPLICA_COLUMNS, Row, columns, facts_of
from portal.cli.output import (
    Column,
    Format,
    Output,
    console,
    data,
    emit,
    facts,
    is_terminal,
    say,
    table,
)
from portal.cli.progress import job_of
from portal.cli.text import clock, expected, moment, plain

WATCH_EVERY = 2.0
MOST_LISTED = 200


def add_to(app: typer.Typer) -> None:
    for command in (ps, why, show, events):
        app.command()(command)


def ps(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="with those that are over")
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--everyone", "-A", help="of all whose jobs you may see")
    ] = False,
    project: Annotated[str, typer.Option("--project", "-p")] = "",
    state: Annotated[list[str] | None, typer.Option("--state", "-s", help="repeatable")] = None,
    name: Annotated[str, typer.Option(help="a part of the name")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = MOST_LISTED,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="until Ctrl-C")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List your jobs (squeue): those that wait and run, newest first."""
    at_hand = tools(context)
    asked: dict[str, Any] = {
        "mine": None if everyone else "true",
        "project": project,
        "name": name,
        "status": state or ([] if everything else list(ALIVE)),
        "page_size": min(limit, 200),
    }
    if watch and is_terminal(sys.stdout) and output in (Format.TABLE, Format.WIDE):
        _watch(at_hand, asked, limit, wide=output is Format.WIDE)
        return
    while True:
        rows = at_hand.client.rows("jobs", limit, **asked)
        empty = "No jobs." if everything else "No jobs that wait or run. With those that are over: "
        empty += "" if everything else "tessera ps -a"
        emit(rows, columns(at_hand.now()), output, empty=empty)
        if len(rows) == limit:
            say(f"Only the newest {limit} are shown: --limit shows more.")
        if not watch:
            return
        sys.stdout.flush()
        at_hand.pause(WATCH_EVERY)


def why(
    context: typer.Context, job: Annotated[str, typer.Argument()], output: Output = Format.TABLE
) -> None:
    """Why a job waits, until when, and what would let it start sooner."""
    at_hand = tools(context)
    row = job_of(at_hand.client, job)
    if output in (Format.JSON, Format.YAML):
        names = ("id", "status", "reason", "position", "estimate", "no_estimate", "result")
        data({name: row.get(name) for name in names}, output)
        return
    if output is Format.NAME:
        typer.echo(plain((row.get("reason") or {}).get("code", "")))
        return
    console(sys.stdout).print(facts(_explained(row, at_hand)))
    alternatives = (row.get("reason") or {}).get("alternatives") or []
    for number, alternative in enumerate(alternatives, 1):
        typer.echo(f"  {number}. {plain(alternative['sentence'])}")
    if alternatives:
        typer.echo(f"Take one: tessera replace {plain(row['id'])} NUMBER")


def show(
    context: typer.Context, job: Annotated[str, typer.Argument()], output: Output = Format.TABLE
) -> None:
    """One job whole: what it asks for, where it runs, how it ended."""
    at_hand = tools(context)
    row = job_of(at_hand.client, job)
    if output in (Format.JSON, Format.YAML):
        data(row, output)
        return
    if output is Format.NAME:
        typer.echo(plain(row["id"]))
        return
    screen = console(sys.stdout)
    screen.print(facts(facts_of(row, at_hand.now())))
    attempts = row["attempts"] if output is Format.WIDE else row["attempts"][-1:]
    for attempt in attempts:
        told = f", {attempt['outcome']}" if attempt["outcome"] else ""
        typer.echo(f"\nAttempt {attempt['number']}{told}")
        screen.print(table(attempt["replicas"], REPLICA_COLUMNS))
    if row["status"] in ("failed", "timed_out"):
        say(f"Its log: tessera logs {plain(row['id'])} --tail 20")


def events(
    context: typer.Context,
    job: Annotated[str, typer.Argument()],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="until it is over")] = False,
    output: Output = Format.TABLE,
) -> None:
    """What happened to a job, oldest first."""
    at_hand = tools(context)
    found, since = _events(at_hand, job, 0)
    now = at_hand.now()
    shape = [
        Column("AT", lambda event: _at(event, now)),
        Column("WHAT", lambda event: event["noun"]),
        Column("CODE", lambda event: event["code"] or event["new"]),
        Column("BY", lambda event: event["actor"]),
        Column("SAYS", lambda event: event["sentence"]),
    ]
    emit(found, shape, output, empty="Nothing happened yet.")
    while watch and job_of(at_hand.client, job)["status"] not in OVER:
        at_hand.pause(WATCH_EVERY)
        found, since = _events(at_hand, job, since)
        for event in found:
            words = (_at(event, now), event["code"] or event["new"], event["sentence"])
            typer.echo("  ".join(plain(word) for word in words))


def _events(at_hand: Tools, job: str, since: int) -> tuple[list[dict[str, Any]], int]:
    """All events after `since`: REST gives them in portions."""
    found: list[dict[str, Any]] = []
    while True:
        page = at_hand.client.get(at("jobs", job, "events"), hint="tessera ps -a", since=since)
        found += page["results"]
        if not page["results"] or page["next_since"] == since:
            return found, since
        since = page["next_since"]


def _at(event: Row, now: Any) -> str:
    when = moment(event["at"])
    return clock(when, now) if when else ""


def _watch(at_hand: Tools, asked: dict[str, Any], limit: int, *, wide: bool) -> None:
    screen = console(sys.stdout)
    try:
        with Live(console=screen, auto_refresh=False, screen=False) as live:
            while True:
                rows = at_hand.client.rows("jobs", limit, **asked)
                live.update(table(rows, columns(at_hand.now()), wide=wide), refresh=True)
                at_hand.pause(WATCH_EVERY)
    except KeyboardInterrupt:
        return


def _explained(row: Row, at_hand: Tools) -> list[tuple[str, object]]:
    reason = row.get("reason") or {}
    return [
        ("Job", f"{row['id']} {row['name']}"),
        ("State", row["status"]),
        ("Why", reason.get("sentence") or _no_reason(row)),
        ("Code", f"{reason['code']} ({_class(reason)})" if reason.get("code") else ""),
        ("Position", row.get("position")),
        ("Start", expected(row, at_hand.now())),
        ("Rests on", (row.get("estimate") or {}).get("basis", "")),
        ("Sooner if", reason.get("unblocks", "")),
    ]


def _class(reason: Row) -> str:
    words = {"wait": "wait", "change": "change your request", "ask": "ask an admin"}
    return words.get(str(reason.get("class")), str(reason.get("class")))


def _no_reason(row: Row) -> str:
    first = ((row.get("result") or {}).get("first_failure") or {}).get("sentence")
    if row["status"] in OVER:
        return str(first or f"It is over: {row['stop_reason'] or row['status']}")
    return "It does not wait" if row["status"] == "running" else "The planner looks at it soon"


def chosen(alternatives: list[Any], number: int, job: str) -> Row:
    """The alternative that people number from 1."""
    if not alternatives:
        sentence = f"{job} has no alternatives now"
        raise Failed("no_alternative", sentence, f"tessera why {job}", Exit.CONFLICT)
    if not 1 <= number <= len(alternatives):
        sentence = f"{job} has alternatives 1 to {len(alternatives)}"
        raise Failed("no_alternative", sentence, f"tessera why {job}", Exit.USAGE)
    found: Row = alternatives[number - 1]
    return found
