"""The admin commands: nodes, quotas and approvals. They need a token of scope admin."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.commands import node_pairs
from portal.cli.commands.actions import is_array
from portal.cli.commands.cluster import NODE_COLUMNS, nodes_with_counts
from portal.cli.commands.usage import QUOTA_COLUMNS
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import job_columns, members_text
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    print_message,
    print_row,
    print_rows,
)
from portal.cli.progress import POLL_SECONDS, StatusLine
from portal.cli.text import UNITS_PER_GPU, gpu_count_text, single_line

app = typer.Typer(help="For admins: nodes, quotas and approvals.", no_args_is_help=True)
nodes = typer.Typer(
    help="Nodes: list, cordon, uncordon, drain, held, pairs, measure.", no_args_is_help=True
)
quotas = typer.Typer(help="Quotas: list, set.", no_args_is_help=True)
app.add_typer(nodes, name="node")
app.add_typer(quotas, name="quota")
node_pairs.add_to(nodes)

HELD_COLUMNS = [
    Column("JOB", lambda held: held["label"] or held["job"]),
    Column("ATTEMPT", lambda held: held["attempt"]),
    Column("RANK", lambda held: held["rank"]),
    Column("STATE", lambda held: held["state"]),
    Column("REPLICA", lambda held: held["replica"], wide=True),
]

NodeArgument = Annotated[str, typer.Argument(help="name of the node")]
WAITING_HELP = "e.g. J-12 J-13, or an array: A-5"
ReasonOption = Annotated[str, typer.Option("--because", "-m", help="the reason, which users see")]


@nodes.command("list")
def node_list(context: typer.Context, output: OutputOption = OutputFormat.WIDE) -> None:
    """List all nodes and their free devices, like `info -o wide`."""
    rows = nodes_with_counts(cli_context(context).client)
    print_rows(rows, NODE_COLUMNS, output, name="name", empty="There are no nodes yet.")


@nodes.command()
def cordon(
    context: typer.Context,
    node: NodeArgument,
    reason: ReasonOption,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Keep new work off a node. Running work continues."""
    print_row(_cordon(cli_context(context), node, reason), output, name="name")


@nodes.command()
def uncordon(
    context: typer.Context, node: NodeArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Return a node to scheduling (scontrol resume)."""
    path = api_path("nodes", node, "uncordon")
    row = cli_context(context).client.post(path, is_repeatable=True, hint="tessera admin node list")
    print_message(f"{single_line(row['name'])} is schedulable again")
    print_row(row, output, name="name")


@nodes.command()
def drain(
    context: typer.Context,
    node: NodeArgument,
    reason: ReasonOption,
    wait: Annotated[
        bool, typer.Option("--wait", "-W", help="wait until nothing runs there")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="seconds to wait; then exit code 6")] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Cordon a node and report what still runs there; --wait waits until nothing does."""
    cli = cli_context(context)
    row = _cordon(cli, node, reason)
    left = _allocated_slices(cli, node)
    print_message(f"{single_line(node)}: {_usage_text(left)}")
    if wait and left:
        _until_empty(cli, node, timeout)
        name = single_line(node)
        print_message(f"{name} is empty. To undo the cordon: tessera admin node uncordon {name}")
    print_row(row, output, name="name")


@nodes.command("held")
def held_work(
    context: typer.Context,
    node: NodeArgument,
    end: Annotated[
        bool, typer.Option("--end", help="let the node end this work, after a question")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List what a node that holds back runs and the portal does not know; --end ends it."""
    client = cli_context(context).client
    row = client.get(api_path("nodes", node), hint="tessera admin node list")
    held = row["held_replicas"]
    print_rows(
        held,
        HELD_COLUMNS,
        output,
        name="replica",
        empty="The node runs nothing that the portal does not know.",
    )
    if not end or not row["holding_since"]:
        return
    if not yes:
        typer.confirm(f"Stop {len(held)} replicas on {single_line(node)}?", abort=True, err=True)
    body = {"replicas": [replica["replica"] for replica in held]}
    client.post(api_path("nodes", node, "allow-mass-removal"), body, is_repeatable=True)
    print_message(f"{single_line(node)} ends this work")


@quotas.command("list")
def quota_list(context: typer.Context, output: OutputOption = OutputFormat.WIDE) -> None:
    """List all quotas with their versions."""
    rows = cli_context(context).client.rows("quotas")
    print_rows(rows, QUOTA_COLUMNS, output, name="project", empty="No quotas have been set.")


@quotas.command("set")
def quota_set(
    context: typer.Context,
    project: Annotated[str, typer.Argument()],
    limit: Annotated[str, typer.Option("--gpus", help="limit in GPUs, e.g. 8 or 2.5")],
    user: Annotated[
        str, typer.Option(help="set the quota of this member, not of the project")
    ] = "",
    model: Annotated[str, typer.Option(help="only GPUs of this model")] = "",
    borrow: Annotated[str, typer.Option(help="GPUs the project may borrow")] = "",
    lend: Annotated[str, typer.Option(help="GPUs the project may lend")] = "",
    version: Annotated[
        int | None, typer.Option("--version", min=0, help="only if this is the current version")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Set a quota. A change that someone else made meanwhile is not overwritten."""
    cli = cli_context(context)
    path = api_path("quotas", project, user) if user else api_path("quotas", project)
    old = _quota(cli, path, model)
    if version is None:
        version = old["version"] if old else 0
    body: dict[str, Any] = {"limit_units": parse_gpu_units(limit), "model": model}
    body |= {"borrow_units": parse_gpu_units(borrow)} if borrow else {}
    body |= {"lend_units": parse_gpu_units(lend)} if lend else {}
    headers = {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}
    try:
        new = cli.client.call("PUT", path, body=body, headers=headers).json()
    except CommandFailed as failed:
        raise _with_both_versions(cli, failed, path, model, limit) from failed
    before = f"{gpu_count_text(old['limit_units'])} -> " if old else ""
    after, used = gpu_count_text(new["limit_units"]), gpu_count_text(new["used_units"])
    print_message(f"{single_line(project)}: {before}{after} GPUs, {used} used")
    print_row(new, output, name="project")


@app.command()
def approve(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help=WAITING_HELP)],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Approve jobs, so that they enter the queue; of an array, all members."""
    _each(cli_context(context), jobs, "approve", None, output)


@app.command()
def refuse(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help=WAITING_HELP)],
    reason: ReasonOption,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Refuse jobs that wait for an approval, or all members of an array; they end."""
    _each(cli_context(context), jobs, "refuse", {"because": reason}, output)


@app.command()
def inbox(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the jobs that wait for an approval."""
    cli = cli_context(context)
    rows = cli.client.rows("jobs", status=["awaiting_approval"], page_size=200)
    print_rows(rows, job_columns(cli.now()), output, empty="No jobs wait for an approval.")


def parse_gpu_units(text: str) -> int:
    """A number of GPUs in units: "2.5" -> 140_000. Raises CommandFailed(usage)."""
    try:
        amount = Decimal(text) * UNITS_PER_GPU
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value():
        sentence = f"{text!r} is not a number of GPUs such as 8, 2.5 or 0.125"
        raise CommandFailed("usage", sentence, "tessera admin quota set --help", ExitCode.USAGE)
    return int(amount)


def _cordon(cli: CliContext, node: str, reason: str) -> dict[str, Any]:
    path = api_path("nodes", node, "cordon")
    hint = "tessera admin node list"
    row: dict[str, Any] = cli.client.post(path, {"reason": reason}, is_repeatable=True, hint=hint)
    print_message(f"{single_line(row['name'])} is cordoned: {single_line(reason)}")
    return row


def _allocated_slices(cli: CliContext, node: str) -> list[dict[str, Any]]:
    return [s for s in cli.client.rows("slices") if s["node"] == node and s["held"]]


def _usage_text(slices: list[dict[str, Any]]) -> str:
    jobs = sorted({str(s["holder"]["job"]) for s in slices if s["holder"]})
    if not slices:
        return "nothing runs there"
    by_jobs = f" by {', '.join(map(single_line, jobs))}" if jobs else ""
    return f"{len(slices)} devices in use{by_jobs}"


def _until_empty(cli: CliContext, node: str, seconds: float | None) -> None:
    line, began = StatusLine(), cli.now()
    try:
        while left := _allocated_slices(cli, node):
            line.show(f"{single_line(node)}: {_usage_text(left)}", len(left))
            if seconds is not None and (cli.now() - began).total_seconds() >= seconds:
                sentence = f"{node} still runs work; it stays cordoned"
                raise CommandFailed("timeout", sentence, "tessera info -o wide", ExitCode.TIMEOUT)
            cli.pause(POLL_SECONDS)
    finally:
        line.clear()


def _quota(cli: CliContext, path: str, model: str) -> dict[str, Any] | None:
    try:
        quota: dict[str, Any] = cli.client.get(path, model=model)
    except CommandFailed as failed:
        if failed.exit_code is ExitCode.NOT_FOUND:
            return None
        raise
    return quota


def _with_both_versions(
    cli: CliContext, failed: CommandFailed, path: str, model: str, limit: str
) -> CommandFailed:
    """The refusal of a stale change, with the present quota beside the requested one."""
    if failed.exit_code is not ExitCode.CONFLICT or (now := _quota(cli, path, model)) is None:
        return failed
    limit_now = gpu_count_text(now["limit_units"])
    versions = f"now {limit_now} GPUs (version {now['version']}), you asked for {limit}"
    sentence = f"{failed.sentence}: {versions}"
    return CommandFailed(
        failed.code,
        sentence,
        "tessera admin quota list, then the same command again",
        ExitCode.CONFLICT,
    )


def _each(cli: CliContext, jobs: list[str], verb: str, body: Any, output: OutputFormat) -> None:
    for job in dict.fromkeys(jobs):
        path = api_path("arrays" if is_array(job) else "jobs", job, verb)
        row = cli.client.post(path, body, hint="tessera admin inbox")
        state = row.get("status") or members_text(row["members"])
        print_message(f"{single_line(row['id'])} {state}")
        print_row(row, output)
