"""`tessera service`: create, list, show, change and end services, and promote their canaries."""

import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli.client import api_path
from portal.cli.context import CliContext, cli_context
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import (
    Column,
    OutputFormat,
    OutputOption,
    console,
    facts_table,
    print_data,
    print_message,
    print_row,
    print_rows,
    rows_table,
)
from portal.cli.request_builder import read_request_file
from portal.cli.text import single_line

app = typer.Typer(
    help="Services: copies of one job behind one address. Create, list, show, change, promote, "
    "end.",
    no_args_is_help=True,
)

COLUMNS = [
    Column("SERVICE", lambda row: row["id"]),
    Column("NAME", lambda row: row["name"]),
    Column("PROJECT", lambda row: row["project"]),
    Column("READY", lambda row: f"{row['ready']}/{row['copies']}"),
    Column("COPIES", lambda row: f"{row['min_copies']}-{row['max_copies']}"),
    Column("HOST", lambda row: row["host"] or "none"),
    Column("OWNER", lambda row: row["owner"], wide=True),
    Column("PROBLEM", lambda row: row["problem"], wide=True),
]
COPY_COLUMNS = [
    Column("JOB", lambda row: row["job"]),
    Column("STATUS", lambda row: row["status"]),
    Column("REQUEST", lambda row: row["generation"]),
    Column("READY SINCE", lambda row: row["ready_at"] or ""),
]
CREATE_HINT = "tessera service create NAME -f request.yaml"

ServiceArgument = Annotated[str, typer.Argument(help="such as S-5", metavar="SERVICE")]
MinOption = Annotated[int | None, typer.Option("--min", help="copies at least; 0: none when idle")]
MaxOption = Annotated[int | None, typer.Option("--max", help="copies at most")]
CallsOption = Annotated[
    int | None, typer.Option("--calls", help="calls at once that a copy is meant for")
]
CoolDownOption = Annotated[
    int | None, typer.Option("--cool-down", help="seconds before there are fewer copies")
]
StartOption = Annotated[
    int | None, typer.Option("--start-limit", help="seconds until a copy has to be ready")
]
PortOption = Annotated[
    int | None, typer.Option("--port", help="where it listens; 0: at $PORT, one for each copy")
]
HealthOption = Annotated[
    str | None, typer.Option("--health", help="path that answers once it is ready")
]

CanaryOption = Annotated[
    str | None,
    typer.Option("--canary", help="service that gets some of the calls, such as S-9; or none"),
]
PercentOption = Annotated[
    int | None, typer.Option("--percent", help="of 100 new calls, how many the canary gets")
]


@app.command("create")
def service_create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="the first part of its host, such as llm")],
    file: Annotated[str, typer.Option("--file", "-f", help="request in YAML; - for stdin")],
    project: Annotated[str, typer.Option("--project", "-p", help="instead of the file's")] = "",
    min_copies: MinOption = None,
    max_copies: MaxOption = None,
    calls: CallsOption = None,
    cool_down: CoolDownOption = None,
    start_limit: StartOption = None,
    port: PortOption = None,
    health: HealthOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Create a service: keeps copies of the request running behind one address.

    tessera service create llm -f vllm.yaml --port 8000 --health /health --min 0 --max 4
    """
    cli = cli_context(context)
    request = _request(cli, file)
    if project:
        request["project"] = project
    elif "project" not in request:
        request["project"] = cli.default_project()
    chosen = _chosen(min_copies, max_copies, calls, cool_down, start_limit, port, health)
    if max_copies is None and min_copies is not None:
        chosen["max_copies"] = max(min_copies, 1)
    body = {"name": name, "request": request} | chosen
    row = cli.client.post("services", body, key=str(uuid.uuid4()), hint=CREATE_HINT)
    print_message(
        f"Created {single_line(row['id'])}. See it: tessera service show {single_line(row['id'])}"
    )
    print_row(row, output)


@app.command("list")
def service_list(context: typer.Context, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the services of your projects."""
    rows = cli_context(context).client.rows("services")
    print_rows(rows, COLUMNS, output, empty=f"There are no services yet. {CREATE_HINT}")


@app.command("show")
def service_show(
    context: typer.Context, service: ServiceArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Show a service with its copies and how busy they are."""
    row = _shown(cli_context(context), service)
    if output.is_data:
        print_data(row, output)
    elif output is OutputFormat.NAME:
        print_row(row, output)
    else:
        console(sys.stdout).print(facts_table(_facts(row)))
        if row["jobs"]:
            console(sys.stdout).print(rows_table(row["jobs"], COPY_COLUMNS, wide=False))


@app.command("change")
def service_change(
    context: typer.Context,
    service: ServiceArgument,
    file: Annotated[
        str, typer.Option("--file", "-f", help="new request: replaces one copy after another")
    ] = "",
    min_copies: MinOption = None,
    max_copies: MaxOption = None,
    calls: CallsOption = None,
    cool_down: CoolDownOption = None,
    start_limit: StartOption = None,
    port: PortOption = None,
    health: HealthOption = None,
    canary: CanaryOption = None,
    percent: PercentOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Change how a service is run; with -f what it runs, with --canary which one gets some calls.

    tessera service change S-5 --canary S-9 --percent 10
    """
    cli = cli_context(context)
    body = _chosen(min_copies, max_copies, calls, cool_down, start_limit, port, health)
    if canary is not None:
        body["canary"] = "" if canary == "none" else canary
    if percent is not None:
        body["canary_percent"] = percent
    if file:
        body["request"] = _request(cli, file)
    if not body:
        hint = f"tessera service change {single_line(service)} --max 4"
        raise CommandFailed("usage", "Nothing to change", hint, ExitCode.USAGE)
    version = _shown(cli, service)["version"]
    path, headers = api_path("services", service), {"If-Match": f'"{version}"'}
    row = cli.client.call("PATCH", path, body=body, headers=headers).json()
    print_message(f"Changed {single_line(row['id'])}")
    print_row(row, output)


@app.command("promote")
def service_promote(
    context: typer.Context, service: ServiceArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Have a service run what its canary runs, one copy after another. The canary then ends."""
    path = api_path("services", service, "promote")
    hint = f"tessera service show {single_line(service)}"
    row = cli_context(context).client.post(path, hint=hint)
    print_message(f"{single_line(row['id'])} takes over what {single_line(row['canary'])} runs")
    print_row(row, output)


@app.command("end")
def service_end(context: typer.Context, service: ServiceArgument) -> None:
    """End a service. Its copies finish the calls that they have, and are then cancelled."""
    path = api_path("services", service)
    cli_context(context).client.call(
        "DELETE", path, is_repeatable=True, hint="tessera service list"
    )
    print_message(f"{single_line(service)} ends")


def _shown(cli: CliContext, service: str) -> dict[str, Any]:
    row: dict[str, Any] = cli.client.get(api_path("services", service), hint="tessera service list")
    return row


def _chosen(
    min_copies: int | None,
    max_copies: int | None,
    calls: int | None,
    cool_down: int | None,
    start_limit: int | None,
    port: int | None,
    health: str | None,
) -> dict[str, Any]:
    """Fields of REST for the options that were given."""
    fields = {
        "min_copies": min_copies,
        "max_copies": max_copies,
        "calls_per_copy": calls,
        "cool_down_seconds": cool_down,
        "start_seconds": start_limit,
        "port": port,
        "health_path": health,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _request(cli: CliContext, file: str) -> dict[str, Any]:
    """Raises CommandFailed(file_unreadable, request_unreadable)."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, ValueError) as error:
        sentence = f"{file} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise CommandFailed("file_unreadable", sentence, CREATE_HINT, ExitCode.USAGE) from error
    return dict(read_request_file(text, "stdin" if file == "-" else Path(file).name, []).fields)


def _facts(row: Mapping[str, Any]) -> list[tuple[str, object]]:
    facts = [
        ("Service", f"{row['id']} {row['name']}"),
        ("Project", row["project"]),
        ("Address", row["host"] or "none: this portal serves no apps"),
        (
            "Ready",
            f"{row['ready']} of {row['copies']} copies ({row['min_copies']} to "
            f"{row['max_copies']})",
        ),
        ("Calls", _calls(row["busyness"])),
    ]
    if row["problem"]:
        facts.append(("Problem", row["problem"]))
    # A portal before canaries does not say.
    if row.get("canary"):
        facts += _canary_facts(row)
    return facts


def _canary_facts(row: Mapping[str, Any]) -> list[tuple[str, object]]:
    gets = f"{row['canary']} gets {row['canary_percent']} of 100 new calls"
    is_promoted = "; being promoted" if row["is_canary_promoted"] else ""
    facts: list[tuple[str, object]] = [
        ("Canary", f"{gets}, copies ready: {row['canary_ready']}{is_promoted}"),
        ("Its calls", _calls(row["canary_busyness"])),
    ]
    if row["canary_problem"]:
        facts.append(("Its problem", row["canary_problem"]))
    return facts


def _calls(busy: Mapping[str, Any]) -> str:
    p50, p99 = (f"{busy[name]:.0f} ms" if busy[name] else "none" for name in ("p50_ms", "p99_ms"))
    calls = (
        f"{busy['open_calls']} in progress, {busy['waiting']} waiting, "
        f"{busy['calls_per_second']:.1f} a second; p50 {p50}, p99 {p99}"
    )
    # A portal before canaries does not count them.
    failed = busy.get("failed_calls")
    return calls if failed is None else f"{calls}; {failed} failed in the last minute"
