"""Commands about consumption: usage, quota."""

from collections.abc import Mapping
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any

import typer

from portal.cli.context import cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    print_data,
    print_message,
    print_rows,
)
from portal.cli.text import clock_text, gpu_count_text, parse_time, single_line

QUOTA_COLUMNS = [
    Column("PROJECT", lambda quota: quota["project"]),
    Column("USER", lambda quota: quota["user"] or "(all)"),
    Column("MODEL", lambda quota: quota["model"] or "(any)"),
    Column("HELD", lambda quota: gpu_count_text(quota["used_units"])),
    Column("PROMISED", lambda quota: gpu_count_text(quota.get("promised_units", 0))),
    Column("LIMIT", lambda quota: gpu_count_text(quota["limit_units"])),
    Column("FREE", lambda quota: gpu_count_text(_free_units(quota))),
    Column("BORROWS", lambda quota: gpu_count_text(quota["borrow_units"]), wide=True),
    Column("LENDS", lambda quota: gpu_count_text(quota["lend_units"]), wide=True),
    Column("VERSION", lambda quota: quota["version"], wide=True),
]


def add_to(app: typer.Typer) -> None:
    app.command()(usage)
    app.command()(quota)


def quota(
    context: typer.Context,
    project: Annotated[str, typer.Option("--project", "-p")] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List your quotas in GPUs: held, promised to jobs about to start, limit and free (sshare)."""
    rows = cli_context(context).client.rows("quotas")
    rows = [row for row in rows if project in ("", row["project"])]
    print_rows(rows, QUOTA_COLUMNS, output, name="project", empty="You have no quotas.")


def _free_units(quota: Mapping[str, Any]) -> int:
    """A portal of an earlier version promises nothing."""
    held: int = quota["used_units"]
    free: int = quota.get("free_units", max(0, quota["limit_units"] - held))
    return free


def usage(
    context: typer.Context,
    project: Annotated[str, typer.Option("--project", "-p", help="of the whole project")] = "",
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="of everyone (platform admins)")
    ] = False,
    group_by: Annotated[
        str, typer.Option("--by", help="comma-separated: project, user, model, kind")
    ] = "",
    since: Annotated[
        str, typer.Option("--from", "--since", help="default: start of this month")
    ] = "",
    until: Annotated[str, typer.Option("--to", "--until", help="exclusive; default: now")] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Report GPU-hours, yours by default, and budgets (sreport)."""
    of = f"project:{project}" if project else ("all" if everything else "")
    query = {"of": of, "by": group_by, "from": since, "to": until}
    try:
        answer = cli_context(context).client.get("usage", **query)
    except CommandFailed as failed:
        if failed.exit_code is not ExitCode.NOT_FOUND or of:
            raise
        sentence = "This portal's API has no usage report; see its Usage page"
        raise CommandFailed("not_offered", sentence, "tessera quota") from failed
    if output.is_data:
        print_data(answer, output)
        return
    shown = [Column(part.upper(), itemgetter(part)) for part in answer["by"]]
    shown.append(Column("GPU-HOURS", itemgetter("gpu_hours")))
    first = answer["by"][0] if answer["by"] else "gpu_hours"
    print_rows(answer["results"], shown, output, name=first, empty="No usage in that time.")
    if output is not OutputFormat.NAME:
        now = cli_context(context).now()
        begin, end = (parse_time(answer[name]) for name in ("from", "counted_until"))
        if begin and end:
            span = f"from {clock_text(begin, now)} to {clock_text(end, now)}"
            print_message(f"{answer['gpu_hours']} GPU-hours {span}")
        for budget in answer["budgets"]:
            print_message(_budget(budget, now))


def _budget(budget: Mapping[str, Any], now: datetime) -> str:
    """One line: used, reserved and limit in GPU-hours, and the forecast."""
    used, held, limit, end = (
        gpu_count_text((budget.get(f"{name}_unit_seconds") or 0) // 3_600)
        for name in ("used", "held", "limit", "forecast")
    )
    holder = budget["project"] + (f" {budget['user']}" if budget["user"] else "")
    heading = f", forecast {end} at its end" if budget["forecast_unit_seconds"] is not None else ""
    end_at = parse_time(budget["runs_out_at"])
    out = f", runs out {clock_text(end_at, now)}" if end_at else ""
    return single_line(
        f"Budget of {holder}: {used} used, {held} reserved, of {limit} GPU-hours{heading}{out}"
    )
