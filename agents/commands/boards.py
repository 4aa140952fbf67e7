"""`agents boards`: the boards that this version knows, with their MIG profiles. Reads no driver."""

import argparse
import json
import sys
from typing import Any

from agents.contract.boards import Board, known_boards


def main(options: argparse.Namespace) -> int:
    boards = [known_boards()[key] for key in sorted(known_boards())]
    sys.stdout.write(boards_json(boards) if options.json else boards_text(boards))
    return 0


def boards_json(boards: list[Board]) -> str:
    return json.dumps({"boards": [_document(board) for board in boards]}, indent=2) + "\n"


def boards_text(boards: list[Board]) -> str:
    """A line for each board."""
    rows = [
        f"{board.key:<16} {board.memory_mib:>7} MiB  "
        f"{' '.join(profile.name for profile in board.profiles) or 'no MIG'}\n"
        for board in boards
    ]
    return "".join(rows)


def _document(board: Board) -> dict[str, Any]:
    return {
        "key": board.key,
        "product_names": list(board.product_names),
        "memory_mib": board.memory_mib,
        "profiles": [
            {
                "name": profile.name,
                "memory_mib": profile.memory_mib,
                "max_instances": profile.max_instances,
            }
            for profile in board.profiles
        ],
    }
