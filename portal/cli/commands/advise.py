"""`tessera advise`: which devices hold a model, and when they could start."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli.as_command import as_command
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
from portal.cli.text import duration_text, expected_start_text, single_line

MAX_CONFIG_BYTES = 256 << 10
GIB = 1 << 30


def add_to(app: typer.Typer) -> None:
    app.command()(advise)


def advise(
    context: typer.Context,
    task: Annotated[str, typer.Option(help="pretraining, finetuning, lora, qlora or inference")],
    model: Annotated[str, typer.Option("--model", "-m", help="such as llama3-8b")] = "",
    config: Annotated[
        Path | None, typer.Option(help="a model's config.json, in place of --model")
    ] = None,
    config_file: Annotated[
        str,
        typer.Option(
            help="a config.json of a job or volume: JOB:PATH, TREE:PATH, volume:NAME/PATH"
        ),
    ] = "",
    batch: Annotated[int, typer.Option(min=0, help="sequences of a training step; default: 1")] = 0,
    sequence: Annotated[int, typer.Option(min=0, help="tokens of a sequence")] = 0,
    recompute: Annotated[
        str, typer.Option(help="activations computed again: full or none; default: full")
    ] = "",
    concurrency: Annotated[
        int, typer.Option(min=0, help="sequences served at a time; default: 8")
    ] = 0,
    quantisation: Annotated[
        str, typer.Option(help="weights of a served model: fp8, awq, q4_k_m, …; default: bf16")
    ] = "",
    tokens: Annotated[int, typer.Option(min=0, help="of the whole training: its time, cost")] = 0,
    steps: Annotated[int, typer.Option(min=0, help="of the whole training, not --tokens")] = 0,
    project: Annotated[str, typer.Option("--project", "-p", help="whose quotas count")] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Find the smallest device that holds a model, and when it could start."""
    cli = cli_context(context)
    fields: dict[str, Any] = {
        "model": model,
        "config": _config(config) if config else None,
        "config_file": config_file,
        "task": task,
        "batch": batch,
        "sequence": sequence,
        "recompute": recompute,
        "concurrency": concurrency,
        "quantisation": quantisation,
        "tokens": tokens,
        "steps": steps,
        "project": project or cli.access.project,
    }
    body = {name: value for name, value in fields.items() if value}
    advice = cli.client.post("advice", body, is_repeatable=True, hint="tessera advise --help")
    if output.is_data:
        print_data(advice, output)
        return
    now = cli.now()
    columns = [
        Column("DEVICE", _name),
        Column("NUMBER", _number),
        Column("NEEDS", lambda row: _gib(row["needed_bytes"])),
        Column("HAS", lambda row: _gib(row["memory_bytes"])),
        Column("FITS", lambda row: "yes" if row["usable"] else _why_not(row)),
        Column("FREE", lambda row: row["free"]),
        Column("STARTS", lambda row: _start(row, now)),
        *_run_columns(advice),
        *(_part_column(name) for name in _part_names(advice["devices"])),
    ]
    rows = [{**row, "name": _name(row)} for row in advice["devices"]]
    print_rows(rows, columns, output, name="name", empty="There are no GPUs yet.")
    if output is not OutputFormat.NAME:
        _print_next(advice)


def _config(path: Path) -> Any:
    """Raises CommandFailed for what cannot be a config.json."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES:
            raise ValueError("it is larger than 256 KB")
        read = json.loads(content)
        if not isinstance(read, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        sentence = f"{path} cannot be read: {error}"
        raise CommandFailed("usage", sentence, "tessera advise --help", ExitCode.USAGE) from error
    return read


def _print_next(advice: Mapping[str, Any]) -> None:
    """The command that requests the best one, to be completed."""
    best = next((row for row in advice["devices"] if row["usable"]), None)
    if best is None:
        if advice["devices"]:
            print_message("Nothing here holds it. --output json has the memory by part.")
        return
    if not best["request"]:
        return
    if speed := best.get("serving"):
        print_message(
            f"About {speed['tokens_per_second']:,.0f} tokens a second together, limited by "
            f"{single_line(speed['limits'])}; at most {speed['max_concurrency']:,} such sequences."
        )
    request = {**best["request"], "image": "IMAGE"}
    if advice["project"]:
        request["project"] = single_line(advice["project"])
    print_message(f"Put your image and your program in: {as_command(request)}")


def _run_columns(advice: Mapping[str, Any]) -> list[Column]:
    """Of a training its step, and all of it if its length is known; of a model server its speed."""
    rows, currency = advice["devices"], single_line(advice.get("currency", ""))
    columns = []
    if any(row.get("training") for row in rows):
        columns.append(Column("STEP", _of("training", "step_seconds", lambda s: f"{s:.3g}s")))
    if any(row["training"]["steps"] for row in rows if row.get("training")):
        columns += [
            Column("TIME", _of("training", "seconds", duration_text)),
            Column("GPU-HOURS", _of("training", "gpu_hours", _amount)),
            Column("COST", _of("training", "cost", lambda cost: f"{_amount(cost)} {currency}")),
            Column("KWH", _of("training", "system_kwh", _amount), wide=True),
        ]
    if any(row.get("serving") for row in rows):
        cost = _of("serving", "million_tokens_cost", lambda cost: f"{_amount(cost)} {currency}")
        columns += [
            Column("TOKENS/S", _of("serving", "tokens_per_second", _amount)),
            Column("COST/MTOKENS", cost),
        ]
    return columns


def _of(part: str, name: str, text: Callable[[Any], str]) -> Callable[[Mapping[str, Any]], str]:
    """A cell of a part that not every device has."""

    def cell(row: Mapping[str, Any]) -> str:
        value = (row.get(part) or {}).get(name)
        return "" if value is None else text(value)

    return cell


def _amount(number: float) -> str:
    """ "12,345", "12.3", "0.0123": three digits at least."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _name(row: Mapping[str, Any]) -> str:
    return single_line(f"{row['model']} {row['profile']}".strip())


def _number(row: Mapping[str, Any]) -> str:
    nodes = row["nodes"]
    return f"{nodes} nodes x {row['gpus'] // nodes}" if nodes > 1 else str(row["gpus"])


def _why_not(row: Mapping[str, Any]) -> str:
    if row["obstacle"]:
        return f"no: {single_line(row['obstacle'])}"
    return f"no: {_gib(row['needed_bytes'] - row['memory_bytes'])} too small"


def _start(row: Mapping[str, Any], now: Any) -> str:
    start = row["start"]
    if not start:
        return ""
    if start["at_once"]:
        return "now"
    return expected_start_text(start, now) or f"waits: {single_line(start['code'] or 'unknown')}"


def _part_names(devices: list[Mapping[str, Any]]) -> list[str]:
    return [part["name"] for part in devices[0]["parts"]] if devices else []


def _part_column(name: str) -> Column:
    def cell(row: Mapping[str, Any]) -> str:
        return _gib(sum(part["bytes"] for part in row["parts"] if part["name"] == name))

    return Column(single_line(name).upper().replace("_", "-"), cell, wide=True)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}GiB"
