"""admin: nodes, quotas and approvals. Needs a token of scope admin."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from portal.cli.availability import node_rows
from portal.cli.client import api_path
from portal.cli.commands.cluster import NODE_COLUMNS
from portal.cli.commands.usage import QUOTA_COLUMNS
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import job_columns
from portal.cli.output import OutputFormat, OutputOption, print_message, print_row, print_rows
from portal.cli.progress import POLL_SECONDS, StatusLine
from portal.cli.text import UNITS_PER_GPU, gpu_count_text, single_line

app = typer.Typer(help="For admins: nodes, quotas, approvals.", no_args_is_help=True)
nodes = typer.Typer(help="Nodes: list, cordon, uncordon, drain.", no_args_is_help=True)
quotas = typer.Typer(help="Quotas: list, set.", no_args_is_help=True)
app.add_typer(nodes, name="node")
app.add_typer(quotas, name="quota")

NodeArgument = Annotated[str, typer.Argument(help="its name")]
ReasonOption = Annotated[str, typer.Option("--because", "-m", help="people read it")]


@nodes.command("list")
def node_list(context: typer.Context, output: OutputOption = OutputFormat.WIDE) -> None:
    """All nodes with what is free on them, as `info -o wide`."""
    client = cli_context(context).client
    rows = node_rows(client.rows("nodes"), client.rows("gpus"))
    print_rows(rows, NODE_COLUMNS, output, name="name", empty="There are no nodes yet.")


@nodes.command()
def cordon(
    context: typer.Context,
    node: NodeArgument,
    because: ReasonOption,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """No new work there; what runs goes on."""
    print_row(_cordon(cli_context(context), node, because), output, name="name")


@nodes.command()
def uncordon(
    context: typer.Context, node: NodeArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """It takes work again (scontrol resume)."""
    path = api_path("nodes", node, "uncordon")
    row = cli_context(context).client.post(path, is_repeatable=True, hint="tessera admin node list")
    print_message(f"{single_line(row['name'])} takes work")
    print_row(row, output, name="name")


@nodes.command()
def drain(
    context: typer.Context,
    node: NodeArgument,
    because: ReasonOption,
    wait: Annotated[bool, typer.Option("--wait", "-W", help="until nothing runs there")] = False,
    timeout: Annotated[float | None, typer.Option(help="seconds; then code 6")] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Cordon it and say what still runs there; with --wait, until nothing does."""
    at_hand = cli_context(context)
    row = _cordon(at_hand, node, because)
    left = _held(at_hand, node)
    print_message(f"{single_line(node)}: {_words(left)}")
    if wait and left:
        _until_empty(at_hand, node, timeout)
        print_message(
            f"{single_line(node)} is empty. Bring it back with: tessera admin node uncordon {single_line(node)}"
        )
    print_row(row, output, name="name")


@quotas.command("list")
def quota_list(context: typer.Context, output: OutputOption = OutputFormat.WIDE) -> None:
    """All quotas, with their versions."""
    rows = cli_context(context).client.rows("quotas")
    print_rows(rows, QUOTA_COLUMNS, output, name="project", empty="No quota is set yet.")


@quotas.command("set")
def quota_set(
    context: typer.Context,
    project: Annotated[str, typer.Argument()],
    limit: Annotated[str, typer.Option("--gpus", help="such as 8 or 2.5")],
    user: Annotated[str, typer.Option(help="of one member instead of the whole project")] = "",
    model: Annotated[str, typer.Option(help="only GPUs of this model")] = "",
    borrow: Annotated[str, typer.Option(help="GPUs it may borrow")] = "",
    lend: Annotated[str, typer.Option(help="GPUs it may lend")] = "",
    seen: Annotated[
        int | None, typer.Option("--version", min=0, help="only if it still has this version")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Set a quota, from the version that was read: nobody's change is overwritten."""
    at_hand = cli_context(context)
    path = api_path("quotas", project, user) if user else api_path("quotas", project)
    old = _quota(at_hand, path, model)
    version = seen if seen is not None else (old["version"] if old else 0)
    body: dict[str, Any] = {"limit_units": parse_gpu_units(limit), "model": model}
    body |= {"borrow_units": parse_gpu_units(borrow)} if borrow else {}
    body |= {"lend_units": parse_gpu_units(lend)} if lend else {}
    headers = {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}
    try:
        new = at_hand.client.call("PUT", path, body=body, headers=headers).json()
    except CommandFailed as failed:
        raise _both_versions(at_hand, failed, path, model, limit) from failed
    before = f"{gpu_count_text(old['limit_units'])} -> " if old else ""
    print_message(
        f"{single_line(project)}: {before}{gpu_count_text(new['limit_units'])} GPUs, {gpu_count_text(new['used_units'])} used"
    )
    print_row(new, output, name="project")


@app.command()
def approve(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="such as J-12 J-13")],
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Let jobs that wait for an approval into the queue."""
    _each(cli_context(context), jobs, "approve", None, output)


@app.command()
def refuse(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="such as J-12 J-13")],
    because: ReasonOption,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """End jobs that wait for an approval."""
    _each(cli_context(context), jobs, "refuse", {"because": because}, output)


@app.command()
def inbox(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """Jobs that wait for an approval."""
    at_hand = cli_context(context)
    rows = at_hand.client.rows("jobs", status=["awaiting_approval"], page_size=200)
    print_rows(rows, job_columns(at_hand.now()), output, empty="Nothing waits for an approval.")


def parse_gpu_units(text: str) -> int:
    """GPUs as people write them in whole units: "2.5" -> 140_000. Raises Failed(usage)."""
    try:
        amount = Decimal(text) * UNITS_PER_GPU
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value():
        sentence = f"{text}: write GPUs such as 8, 2.5 or 0.125"
        raise CommandFailed("usage", sentence, "tessera admin quota set --help", ExitCode.USAGE)
    return int(amount)


def _cordon(at_hand: CliContext, node: str, because: str) -> dict[str, Any]:
    path = api_path("nodes", node, "cordon")
    hint = "tessera admin node list"
    row: dict[str, Any] = at_hand.client.post(
        path, {"reason": because}, is_repeatable=True, hint=hint
    )
    print_message(f"{single_line(row['name'])} takes no new work: {single_line(because)}")
    return row


def _held(at_hand: CliContext, node: str) -> list[dict[str, Any]]:
    return [s for s in at_hand.client.rows("slices") if s["node"] == node and s["held"]]


def _words(held: list[dict[str, Any]]) -> str:
    jobs = sorted({str(s["holder"]["job"]) for s in held if s["holder"]})
    if not held:
        return "nothing runs there"
    return f"{len(held)} devices are held" + (
        f" by {', '.join(map(single_line, jobs))}" if jobs else ""
    )


def _until_empty(at_hand: CliContext, node: str, seconds: float | None) -> None:
    line, began = StatusLine(), at_hand.now()
    try:
        while left := _held(at_hand, node):
            line.show(f"{single_line(node)}: {_words(left)}", len(left))
            if seconds is not None and (at_hand.now() - began).total_seconds() >= seconds:
                sentence = f"{node} still has work; it stays cordoned"
                raise CommandFailed("timeout", sentence, "tessera info -o wide", ExitCode.TIMEOUT)
            at_hand.pause(POLL_SECONDS)
    finally:
        line.clear()


def _quota(at_hand: CliContext, path: str, model: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = at_hand.client.get(path, model=model)
    except CommandFailed as failed:
        if failed.exit_code is ExitCode.NOT_FOUND:
            return None
        raise
    return found


def _both_versions(
    at_hand: CliContext, failed: CommandFailed, path: str, model: str, limit: str
) -> CommandFailed:
    """A stale change, with what it is now beside what was wanted."""
    if failed.exit_code is not ExitCode.CONFLICT or (now := _quota(at_hand, path, model)) is None:
        return failed
    told = (
        f"now {gpu_count_text(now['limit_units'])} GPUs (version {now['version']}), wanted {limit}"
    )
    sentence = f"{failed.sentence}: {told}"
    return CommandFailed(
        failed.code, sentence, "the same command again, after a look", ExitCode.CONFLICT
    )


def _each(at_hand: CliContext, jobs: list[str], verb: str, body: Any, output: OutputFormat) -> None:
    for job in dict.fromkeys(jobs):
        path = api_path("jobs", job, verb)
        row = at_hand.client.post(path, body, hint="tessera admin inbox")
        print_message(f"{single_line(row['id'])} {row['status']}")
        print_row(row, output)
