"""usage, quota."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Annotated, Any

import typer

from portal.cli.context import tools
from portal.cli.exit_codes import Exit, Failed
from portal.cli.output import Column, Format, Output, data, emit, say
from portal.cli.text import gpus, plain

QUOTA_COLUMNS = [
    Column("PROJECT", lambda quota: quota["project"]),
    Column("USER", lambda quota: quota["user"] or "(all)"),
    Column("MODEL", lambda quota: quota["model"] or "(any)"),
    Column("USED", lambda quota: gpus(quota["used_units"])),
    Column("LIMIT", lambda quota: gpus(quota["limit_units"])),
    Column("FREE", lambda quota: gpus(max(0, quota["limit_units"] - quota["used_units"]))),
    Column("BORROWS", lambda quota: gpus(quota["borrow_units"]), wide=True),
    Column("LENDS", lambda quota: gpus(quota["lend_units"]), wide=True),
    Column("VERSION", lambda quota: quota["version"], wide=True),
]


def add_to(app: typer.Typer) -> None:
    app.command()(usage)
    app.command()(quota)


def quota(
    context: typer.Context,
    project: Annotated[str, typer.Option("--project", "-p")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Your quotas in GPUs: used, limit, free (sshare)."""
    rows = tools(context).client.rows("quotas")
    rows = [row for row in rows if project in ("", row["project"])]
    emit(rows, QUOTA_COLUMNS, output, name="project", empty="No quota is set for you.")


def usage(
    context: typer.Context,
    project: Annotated[str, typer.Option("--project", "-p", help="of all of it")] = "",
    everything: Annotated[bool, typer.Option("--all", "-a", help="for platform admins")] = False,
    by: Annotated[str, typer.Option(help="with commas: project, user, model, kind")] = "",
    since: Annotated[str, typer.Option("--from", "--since", help="by default, this month")] = "",
    until: Annotated[str, typer.Option("--to", "--until", help="not included")] = "",
    output: Output = Format.TABLE,
) -> None:
    """GPU-hours from allocations, yours by default, and budgets (sreport)."""
    of = f"project:{project}" if project else ("all" if everything else "")
    asked = {"of": of, "by": by, "from": since, "to": until}
    try:
        answer = tools(context).client.get("usage", **asked)
    except Failed as failed:
        if failed.exit is not Exit.NOT_FOUND or of:
            raise
        sentence = "This portal has no usage over REST; its Usage page has it"
        raise Failed("not_offered", sentence, "tessera quota") from failed
    if output in (Format.JSON, Format.YAML):
        data(answer, output)
        return
    shown = [Column(part.upper(), itemgetter(part)) for part in answer["by"]]
    shown.append(Column("GPU-HOURS", itemgetter("gpu_hours")))
    first = answer["by"][0] if answer["by"] else "gpu_hours"
    emit(answer["results"], shown, output, name=first, empty="Nothing was used in that time.")
    if output is not Format.NAME:
        say(f"{answer['gpu_hours']} GPU-hours from {answer['from']} to {answer['counted_until']}")
        for budget in answer["budgets"]:
            say(_budget(budget))


def _budget(budget: Mapping[str, Any]) -> str:
    """One line: used, held and limit in GPU-hours, and where it is heading."""
    used, held, limit, end = (
        gpus((budget.get(f"{name}_unit_seconds") or 0) // 3_600)
        for name in ("used", "held", "limit", "forecast")
    )
    whose = budget["project"] + (f" {budget['user']}" if budget["user"] else "")
    heading = f", about {end} at its end" if budget["forecast_unit_seconds"] is not None else ""
    out = f", runs out {budget['runs_out_at']}" if budget["runs_out_at"] else ""
    return plain(f"Budget of {whose}: {used} used, {held} held, of {limit} GPU-hours{heading}{out}")
