"""cancel, extend, retry, replace, hold, release."""

import uuid
from typing import Annotated, Any

import typer

from portal.cli.client import at
from portal.cli.commands.inspect import chosen
from portal.cli.context import Tools, tools
from portal.cli.exit_codes import Exit, Failed
from portal.cli.job_text import OVER, columns, time_left
from portal.cli.output import Format, Output, emit, one, say, show_failure
from portal.cli.progress import job_of
from portal.cli.text import plain

Job = Annotated[str, typer.Argument(help="such as J-12")]


def add_to(app: typer.Typer) -> None:
    for command in (cancel, extend, retry, replace, hold, release):
        app.command()(command)


def cancel(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="such as J-12 J-13")],
    output: Output = Format.TABLE,
) -> None:
    """End jobs (scancel). One that is over already is no failure."""
    at_hand = tools(context)
    ended, failures = [], []
    for job in dict.fromkeys(jobs):
        try:
            before = job_of(at_hand.client, job)
            row = at_hand.client.post(at("jobs", job, "cancel"), again=True)
        except Failed as failed:
            if len(jobs) == 1:
                raise
            failures.append(failed)
            show_failure(Failed(failed.code, f"{job}: {failed.sentence}", failed.next))
            continue
        ended.append(row)
        was_over = before["status"] in OVER
        say(f"{plain(row['id'])} {'was ' if was_over else ''}{row['status']}")
    if output is not Format.TABLE:
        emit(ended, columns(at_hand.now()), output)
    if failures:
        raise typer.Exit(failures[0].exit)


def extend(
    context: typer.Context,
    job: Job,
    by: Annotated[str, typer.Argument(help="how much more time, such as 1h")],
    output: Output = Format.TABLE,
) -> None:
    """Give a running job more time."""
    at_hand = tools(context)
    row = _act(at_hand, job, "extend", {"by": by})
    say(f"{plain(row['id'])} has {time_left(row, at_hand.now())} left")
    one(row, output)


def retry(
    context: typer.Context,
    job: Job,
    output: Output = Format.TABLE,
) -> None:
    """Ask for the same once more, as a new job."""
    at_hand = tools(context)
    row = _act(at_hand, job, "retry", None, key=str(uuid.uuid4()))
    say(f"{plain(row['id'])} tries {plain(job)} again. Follow: tessera why {plain(row['id'])}")
    one(row, output)


def replace(
    context: typer.Context,
    job: Job,
    number: Annotated[int, typer.Argument(help="of the alternatives that `why` lists")],
    output: Output = Format.TABLE,
) -> None:
    """Take an alternative that could start now; it keeps the place in the queue."""
    at_hand = tools(context)
    row = job_of(at_hand.client, job)
    alternatives = (row.get("reason") or {}).get("alternatives") or []
    taken = chosen(alternatives, number, str(row["id"]))
    new = at_hand.client.post(at("jobs", job, "replace"), {"changes": taken["changes"]})
    say(f"{plain(new['id'])} takes the place of {plain(row['id'])}: {plain(taken['sentence'])}")
    one(new, output)


def hold(
    context: typer.Context,
    job: Job,
    because: Annotated[str, typer.Option("--because", help="what it waits for")] = "held",
    output: Output = Format.TABLE,
) -> None:
    """Keep a waiting job from starting (scontrol hold)."""
    row = _act(tools(context), job, "hold", {"because": because})
    say(f"{plain(row['id'])} is held. Let it go: tessera release {plain(row['id'])}")
    one(row, output)


def release(context: typer.Context, job: Job, output: Output = Format.TABLE) -> None:
    """Let a held job start (scontrol release)."""
    row = _act(tools(context), job, "release", None)
    say(f"{plain(row['id'])} is released")
    one(row, output)


def _act(at_hand: Tools, job: str, verb: str, body: Any, *, key: str = "") -> dict[str, Any]:
    """POST the verb. A portal that has no such address says so, not that the job is unknown."""
    try:
        found: dict[str, Any] = at_hand.client.post(at("jobs", job, verb), body, key=key)
    except Failed as failed:
        if failed.exit is not Exit.NOT_FOUND:
            raise
        job_of(at_hand.client, job)
        sentence = f"This portal has no {verb} over REST"
        raise Failed("not_offered", sentence, f"tessera show {job}") from failed
    return found
