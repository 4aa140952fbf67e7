"""`python -m agents.simdriver create|show`: make a simulated node, or print its state."""

import argparse
import errno
import json
import secrets
import sys
from pathlib import Path

from agents.contract.boards import boards
from agents.simdriver.layouts import FLAT, LAYOUTS
from agents.simdriver.state import new_node, write
from agents.simdriver.store import Store

DEFAULT_BOARD, DEFAULT_GPUS = "H200-141GB", 4


def main(arguments: list[str]) -> int:
    """Ends with one sentence and status 2 where the file is not what it should be."""
    parser = _parser()
    options = parser.parse_args(arguments)
    store = Store(options.path)
    if options.command == "create":
        _settle(parser, options)
    try:
        if options.command == "create":
            _create(store, options)
        shown = write(store.node())
    except OSError as error:
        parser.error(f"{options.path}: {error.strerror}. `create` makes a node, `show` needs one.")
    except (ValueError, KeyError, TypeError, AttributeError):
        parser.error(f"{options.path} is not the state of a simulated node")
    sys.stdout.write(json.dumps(shown, indent=1) + "\n")
    return 0


def _settle(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """A layout brings its board and number of GPUs; what is named beside it has to agree."""
    layout = LAYOUTS[options.layout]
    board = options.board or layout.board or DEFAULT_BOARD
    gpus = options.gpus or layout.gpus or DEFAULT_GPUS
    if layout.board not in (None, board) or layout.gpus not in (None, gpus):
        parser.error(f"{layout.name} is {layout.gpus} x {layout.board}, not {gpus} x {board}")
    options.board, options.gpus = board, gpus


def _create(store: Store, options: argparse.Namespace) -> None:
    """Never over a node that an agent may be using. Raises FileExistsError."""
    if store.path.exists():
        raise FileExistsError(errno.EEXIST, "exists already, delete it to begin anew")
    store.create(
        new_node(
            board=options.board,
            gpus=options.gpus,
            seed=options.seed if options.seed is not None else secrets.randbits(48),
            latency=options.latency == "on",
            layout=LAYOUTS[options.layout],
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.simdriver", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a node, all GPUs of one board")
    create.add_argument("--board", choices=sorted(boards()), help=f"else {DEFAULT_BOARD}")
    create.add_argument("--gpus", type=int, choices=range(1, 17), metavar="1..16")
    wirings = "; ".join(f"{layout.name}: {layout.says}" for layout in LAYOUTS.values())
    create.add_argument("--layout", choices=list(LAYOUTS), default=FLAT.name, help=wirings)
    create.add_argument("--seed", type=int, help="the same seed gives the same UUIDs")
    create.add_argument("--latency", choices=["on", "off"], default="on")
    show = commands.add_parser("show", help="print the node's state as JSON")
    for command in (create, show):
        command.add_argument("--path", type=Path, required=True, help="the state file")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
