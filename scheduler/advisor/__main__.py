"""Ask the formulas from the command line.

python -m scheduler.advisor cases FILE --json
python -m scheduler.advisor search --model llama3-405b --gpus 1024 --json
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from scheduler.advisor.cases.answers import answer
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.gpus import GPUS, gpu_by_name
from scheduler.advisor.model_config import shape_from_config
from scheduler.advisor.models import SHAPES, shape_by_name
from scheduler.advisor.search import search
from scheduler.advisor.transformer import Shape, resized

LARGEST_FILE = 10_000_000  # bytes
LONGEST_SEQUENCE = 10_000_000  # tokens


def _read_json(path: Path) -> Any:
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE:,} bytes")
    return json.loads(content)


def read_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of a file: a list, or an object with a list `cases`."""
    content = _read_json(path)
    cases = content.get("cases") if isinstance(content, dict) else content
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ValueError("it must be a list of objects, or an object with such a list as `cases`")
    return cases


def as_line(reply: dict[str, Any]) -> str:
    value = reply.get("error") or f"{reply['value']:.6g} {reply['unit']}"
    return f"{reply['id']}: {value}"


def _shape(options: argparse.Namespace) -> Shape:
    if not 0 <= options.sequence <= LONGEST_SEQUENCE:
        raise AdvisorError(f"the sequence must be between 1 and {LONGEST_SEQUENCE:,} tokens")
    if options.config is None:
        shape = shape_by_name(options.model)
        return resized(shape, options.sequence)
    try:
        config = _read_json(options.config)
    except (OSError, ValueError, RecursionError) as error:
        raise AdvisorError(f"{options.config} can't be read: {error}") from None
    if not isinstance(config, dict):
        raise AdvisorError(f"{options.config} is not a JSON object")
    return shape_from_config(config, options.sequence)


def search_text(options: argparse.Namespace) -> str:
    shape, gpu = _shape(options), gpu_by_name(options.gpu)
    name = options.model or str(options.config)
    found = search(shape, gpu, options.gpus, options.global_batch)
    shown = found[: max(options.best, 0)]
    rows = [one.as_json(shape, gpu, found[0].parts) for one in shown]
    if options.json:
        whole = {"model": name, "gpus": options.gpus, "gpu": options.gpu}
        return json.dumps(whole | {"fitting": len(found), "best": rows}) + "\n"
    if not found:
        return f"{name} does not fit {options.gpus} x {options.gpu} by any division.\n"
    return "".join(
        f"tp {row['tp']} pp {row['pp']} cp {row['cp']} ep {row['ep']} dp {row['dp']} ZeRO "
        f"{row['zero_stage']}, micro-batch {row['micro_batch']}, recompute {row['recompute']}: "
        f"{row['step_s']} s a step, {row['memory_gib']} GiB, MFU {row['mfu_percent']} %"
        + (f" on {row['gpus']} GPUs" if row["gpus"] < options.gpus else "")
        + (f"; slower by {row['slower_part']}" if row["slower_part"] else "")
        + "\n"
        for row in rows
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scheduler.advisor", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cases = commands.add_parser("cases", help="answer the cases of a file, one a line")
    cases.add_argument("file", type=Path)
    cases.add_argument("--json", action="store_true", help="an object a line")
    searched = commands.add_parser("search", help="ways to train a model on so many GPUs")
    model = searched.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", metavar="NAME", help=", ".join(SHAPES))
    model.add_argument("--config", type=Path, metavar="FILE", help="a model's config.json")
    searched.add_argument("--sequence", type=int, default=0, help="tokens of a training sequence")
    searched.add_argument("--gpus", required=True, type=int)
    searched.add_argument("--gpu", default="H100-80GB", metavar="NAME", help=", ".join(GPUS))
    searched.add_argument("--global-batch", type=int, default=1024, help="sequences (1024)")
    searched.add_argument("--best", type=int, default=5, help="how many to print (5)")
    searched.add_argument("--json", action="store_true", help="one object")
    options = parser.parse_args(arguments)
    if options.command == "search":
        try:
            sys.stdout.write(search_text(options))
        except AdvisorError as error:
            parser.error(str(error))
        return 0
    try:
        found = [answer(case) for case in read_cases(options.file)]
    except (OSError, ValueError, RecursionError) as error:
        parser.error(f"{options.file} can't be read: {error}")
    for one in found:
        sys.stdout.write((json.dumps(one) if options.json else as_line(one)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
