"""admin: nodes, quotas and approvals. Needs a token of scope admin."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from portal.cli.availability import node_rows
from portal.cli.client import at
from portal.cli.commands.cluster import NODE_COLUMNS
from portal.cli.commands.usage import QUOTA_COLUMNS
from portal.cli.context import Tools, tools
from portal.cli.exit_codes import Exit, Failed
from portal.cli.job_text import columns
from portal.cli.output import Format, Output, emit, one, say
from portal.cli.progress import LOOK_EVERY, Line
from portal.cli.text import UNITS_PER_GPU, gpus, plain

app = typer.Typer(help="For admins: nodes, quotas, approvals.", no_args_is_help=True)
nodes = typer.Typer(help="Nodes: list, cordon, uncordon, drain.", no_args_is_help=True)
quotas = typer.Typer(help="Quotas: list, set.", no_args_is_help=True)
app.add_typer(nodes, name="node")
app.add_typer(quotas, name="quota")

Node = Annotated[str, typer.Argument(help="its name")]
Because = Annotated[str, typer.Option("--because", "-m", help="people read it")]


@nodes.command("list")
def node_list(context: typer.Context, output: Output = Format.WIDE) -> None:
    """All nodes with what is free on them, as `info -o wide`."""
    client = tools(context).client
    rows = node_rows(client.rows("nodes"), client.rows("gpus"))
    emit(rows, NODE_COLUMNS, output, name="name", empty="There are no nodes yet.")


@nodes.command()
def cordon(
    context: typer.Context, node: Node, because: Because, output: Output = Format.TABLE
) -> None:
    """No new work there; what runs goes on."""
    one(_cordon(tools(context), node, because), output, name="name")


@nodes.command()
def uncordon(context: typer.Context, node: Node, output: Output = Format.TABLE) -> None:
    """It takes work again (scontrol resume)."""
    path = at("nodes", node, "uncordon")
    row = tools(context).client.post(path, again=True, hint="tessera admin node list")
    say(f"{plain(row['name'])} takes work")
    one(row, output, name="name")


@nodes.command()
def drain(
    context: typer.Context,
    node: Node,
    because: Because,
    wait: Annotated[bool, typer.Option("--wait", "-W", help="until nothing runs there")] = False,
    timeout: Annotated[float | None, typer.Option(help="seconds; then code 6")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Cordon it and say what still runs there; with --wait, until nothing does."""
    at_hand = tools(context)
    row = _cordon(at_hand, node, because)
    left = _held(at_hand, node)
    say(f"{plain(node)}: {_words(left)}")
    if wait and left:
        _until_empty(at_hand, node, timeout)
        say(
            f"{plain(node)} is empty. Bring it back with: tessera admin node uncordon {plain(node)}"
        )
    one(row, output, name="name")


@quotas.command("list")
def quota_list(context: typer.Context, output: Output = Format.WIDE) -> None:
    """All quotas, with their versions."""
    rows = tools(context).client.rows("quotas")
    emit(rows, QUOTA_COLUMNS, output, name="project", empty="No quota is set yet.")


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
    output: Output = Format.TABLE,
) -> None:
    """Set a quota, from the version that was read: nobody's change is overwritten."""
    at_hand = tools(context)
    path = at("quotas", project, user) if user else at("quotas", project)
    old = _quota(at_hand, path, model)
    version = seen if seen is not None else (old["version"] if old else 0)
    body: dict[str, Any] = {"limit_units": units(limit), "model": model}
    body |= {"borrow_units": units(borrow)} if borrow else {}
    body |= {"lend_units": units(lend)} if lend else {}
    headers = {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}
    try:
        new = at_hand.client.call("PUT", path, body=body, headers=headers).json()
    except Failed as failed:
        raise _both_versions(at_hand, failed, path, model, limit) from failed
    before = f"{gpus(old['limit_units'])} -> " if old else ""
    say(
        f"{plain(project)}: {before}{gpus(new['limit_units'])} GPUs, {gpus(new['used_units'])} used"
    )
    one(new, output, name="project")


@app.command()
def approve(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="such as J-12 J-13")],
    output: Output = Format.TABLE,
) -> None:
    """Let jobs that wait for an approval into the queue."""
    _each(tools(context), jobs, "approve", None, output)


@app.command()
def refuse(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(help="such as J-12 J-13")],
    because: Because,
    output: Output = Format.TABLE,
) -> None:
    """End jobs that wait for an approval."""
    _each(tools(context), jobs, "refuse", {"because": because}, output)


@app.command()
def inbox(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Jobs that wait for an approval."""
    at_hand = tools(context)
    rows = at_hand.client.rows("jobs", status=["awaiting_approval"], page_size=200)
    emit(rows, columns(at_hand.now()), output, empty="Nothing waits for an approval.")


def units(text: str) -> int:
    """GPUs as people write them in whole units: "2.5" -> 140_000. Raises Failed(usage)."""
    try:
        amount = Decimal(text) * UNITS_PER_GPU
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value():
        sentence = f"{text}: write GPUs such as 8, 2.5 or 0.125"
        raise Failed("usage", sentence, "tessera admin quota set --help", Exit.USAGE)
    return int(amount)


def _cordon(at_hand: Tools, node: str, because: str) -> dict[str, Any]:
    path = at("nodes", node, "cordon")
    hint = "tessera admin node list"
    row: dict[str, Any] = at_hand.client.post(path, {"reason": because}, again=True, hint=hint)
    say(f"{plain(row['name'])} takes no new work: {plain(because)}")
    return row


def _held(at_hand: Tools, node: str) -> list[dict[str, Any]]:
    return [s for s in at_hand.client.rows("slices") if s["node"] == node and s["held"]]


def _words(held: list[dict[str, Any]]) -> str:
    jobs = sorted({str(s["holder"]["job"]) for s in held if s["holder"]})
    if not held:
        return "nothing runs there"
    return f"{len(held)} devices are held" + (f" by {', '.join(map(plain, jobs))}" if jobs else "")


def _until_empty(at_hand: Tools, node: str, seconds: float | None) -> None:
    line, began = Line(), at_hand.now()
    try:
        while left := _held(at_hand, node):
            line.show(f"{plain(node)}: {_words(left)}", len(left))
            if seconds is not None and (at_hand.now() - began).total_seconds() >= seconds:
                sentence = f"{node} still has work; it stays cordoned"
                raise Failed("timeout", sentence, "tessera info -o wide", Exit.TIMEOUT)
            at_hand.pause(LOOK_EVERY)
    finally:
        line.clear()


def _quota(at_hand: Tools, path: str, model: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = at_hand.client.get(path, model=model)
    except Failed as failed:
        if failed.exit is Exit.NOT_FOUND:
            return None
        raise
    return found


def _both_versions(at_hand: Tools, failed: Failed, path: str, model: str, limit: str) -> Failed:
    """A stale change, with what it is now beside what was wanted."""
    if failed.exit is not Exit.CONFLICT or (now := _quota(at_hand, path, model)) is None:
        return failed
    told = f"now {gpus(now['limit_units'])} GPUs (version {now['version']}), wanted {limit}"
    sentence = f"{failed.sentence}: {told}"
    return Failed(failed.code, sentence, "the same command again, after a look", Exit.CONFLICT)


def _each(at_hand: Tools, jobs: list[str], verb: str, body: Any, output: Format) -> None:
    for job in dict.fromkeys(jobs):
        path = at("jobs", job, verb)
        row = at_hand.client.post(path, body, hint="tessera admin inbox")
        say(f"{plain(row['id'])} {row['status']}")
        one(row, output)
