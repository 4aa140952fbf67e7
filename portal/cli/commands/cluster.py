"""Commands about the cluster: info, offers, top."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from portal.cli import job_text as words
from portal.cli.availability import device_offers, node_rows
from portal.cli.client import Client
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    console,
    is_terminal,
    print_data,
    print_message,
    print_rows,
    rows_table,
)
from portal.cli.request_builder import parse_mib
from portal.cli.text import memory_text

TOP_EVERY = 2.0
MAX_IN_TOP = 200

NODE_COLUMNS = [
    Column("NODE", lambda node: node["name"]),
    Column("STATE", lambda node: "holding" if node.get("holding_since") else node["status"]),
    Column("SCHEDULABLE", lambda node: "yes" if node["schedulable"] else "no, cordoned"),
    Column("MODEL", lambda node: ", ".join(node["models"])),
    Column("GPUS", lambda node: node["gpu_count"]),
    Column("FREE", lambda node: node["free_gpus"]),
    Column("FREE-SLICES", lambda node: ", ".join(_times(node["free_slices"]))),
    Column("FAULTED", lambda node: node["faulted_gpus"] or ""),
    Column("CPU", lambda node: (node["cpu_milli"] or 0) // 1000, wide=True),
    Column("MEMORY", lambda node: memory_text(node["memory_mib"]), wide=True),
    Column("MAP", lambda node: node["picture"], wide=True),
    Column("CORDON-REASON", lambda node: node["cordon_reason"], wide=True),
]
OFFER_COLUMNS = [
    Column("MODEL", lambda offer: offer["model"]),
    Column("KIND", lambda offer: offer["kind"]),
    Column("PROFILE", lambda offer: offer["profile"]),
    Column("MEMORY", lambda offer: memory_text(offer["memory_mib"])),
    Column("FREE", lambda offer: offer["free"]),
    Column("READY", lambda offer: offer["ready"]),
    Column("CARVE", lambda offer: offer["carvable"], wide=True),
    Column("RE-CARVE", lambda offer: offer["recarvable"], wide=True),
    Column("ALL", lambda offer: offer["all"]),
    Column("NODES", lambda offer: ", ".join(offer["nodes"]), wide=True),
]


def add_to(app: typer.Typer) -> None:
    for command in (info, offers, top):
        app.command(name="offers" if command is offers else None)(command)


def info(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """List nodes and their free devices (sinfo). `-o wide` draws a map of each GPU."""
    rows = nodes_with_counts(cli_context(context).client)
    print_rows(rows, NODE_COLUMNS, output, name="name", empty="There are no nodes yet.")


def nodes_with_counts(client: Client) -> list[dict[str, Any]]:
    """The rows of `NODE_COLUMNS`."""
    nodes, gpus = client.rows("nodes"), client.rows("gpus")
    return node_rows(nodes, gpus, client.get("availability", nodes=True))


def offers(
    context: typer.Context,
    mem: Annotated[str, typer.Option("--mem", help="at least this much memory, e.g. 10GB")] = "",
    model: Annotated[str, typer.Option(help="GPU model, e.g. H200")] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the devices that are free now, by model and kind."""
    client = cli_context(context).client
    counts = client.get("availability", nodes=True)
    rows = device_offers(counts, parse_mib(mem) if mem else 0)
    rows = [row for row in rows if model.lower() in str(row["model"]).lower()]
    if output is OutputFormat.NAME:
        output_names = [row["profile"] or row["kind"] for row in rows if row["free"]]
        sys.stdout.write("".join(f"{name}\n" for name in dict.fromkeys(output_names)))
        return
    print_rows(rows, OFFER_COLUMNS, output, empty="No GPU has that much memory.")
    if output in (OutputFormat.TABLE, OutputFormat.WIDE) and rows:
        print_message(
            "Each kind is counted on its own: slices are carved on demand from the same GPUs. "
            "tessera submit --dry-run shows when a job would start."
        )


def top(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="print once and exit")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the cluster and its jobs, live."""
    cli = cli_context(context)
    if output not in (OutputFormat.TABLE, OutputFormat.WIDE):
        if output is OutputFormat.NAME:
            raise CommandFailed(
                "usage", "top cannot print names", "tessera ps -A -o name", ExitCode.USAGE
            )
        print_data(_figures(cli)[0], output)
        return
    screen = console(sys.stdout)
    wide = output is OutputFormat.WIDE
    if once or not is_terminal(sys.stdout):
        screen.print(_drawn(cli, wide=wide))
        return
    try:
        with Live(console=screen, auto_refresh=False, screen=True) as live:
            while True:
                live.update(_drawn(cli, wide=wide), refresh=True)
                cli.pause(TOP_EVERY)
    except KeyboardInterrupt:
        return


def _figures(cli: CliContext) -> tuple[dict[str, int], list[dict[str, Any]]]:
    counts = cli.client.get("availability")["cluster"]
    rows = cli.client.rows("jobs", MAX_IN_TOP, status=list(words.LIVE_STATUSES), page_size=200)
    figures = {
        "gpus": counts["gpus"],
        "gpus_in_service": counts["in_service"],
        "gpus_free": counts["free_gpus"],
        "gpus_faulted": counts["out_of_service"],
        "gpus_on_unavailable_nodes": counts["on_unavailable_nodes"],
        "running": sum(1 for row in rows if row["status"] == "running"),
        "waiting": sum(1 for row in rows if row["status"] in words.WAITING_STATUSES),
    }
    return figures, rows


def _drawn(cli: CliContext, *, wide: bool) -> Group:
    figures, rows = _figures(cli)
    head = (
        f"{figures['gpus_free']} of {figures['gpus_in_service']} GPUs free · "
        f"{figures['running']} running · {figures['waiting']} waiting"
    )
    if figures["gpus_faulted"]:
        head += f" · {figures['gpus_faulted']} out of service"
    if figures["gpus_on_unavailable_nodes"]:
        head += f" · {figures['gpus_on_unavailable_nodes']} on nodes that take no work"
    order = {"running": 0, "stopping": 1, "preparing": 2, "placed": 3}
    rows.sort(key=lambda row: (order.get(row["status"], 9), row["position"] or 1 << 30))
    return Group(
        Text(head, style="bold"), rows_table(rows, words.job_columns(cli.now()), wide=wide)
    )


def _times(counts: dict[str, int]) -> list[str]:
    return [f"{count} x {profile}" for profile, count in counts.items()]
