"""`python -m agents.simdriver create|show`: make a simulated node, or print its state."""

import argparse
import json
import secrets
import sys
from pathlib import Path

from agents.contract.boards import boards
from agents.simdriver.state import new_node, write
from agents.simdriver.store import Store


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    store = Store(options.path)
    if options.command == "create":
        store.create(
            new_node(
                board=options.board,
                gpus=options.gpus,
                seed=options.seed if options.seed is not None else secrets.randbits(48),
                latency=options.latency == "on",
            )
        )
    sys.stdout.write(json.dumps(write(store.node()), indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.simdriver", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a node, all GPUs of one board")
    create.add_argument("--board", choices=sorted(boards()), default="H200-141GB")
    create.add_argument("--gpus", type=int, choices=range(1, 17), default=4, metavar="1..16")
    create.add_argument("--seed", type=int, help="the same seed gives the same UUIDs")
    create.add_argument("--latency", choices=["on", "off"], default="on")
    show = commands.add_parser("show", help="print the node's state as JSON")
    for command in (create, show):
        command.add_argument("--path", type=Path, required=True, help="the state file")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
