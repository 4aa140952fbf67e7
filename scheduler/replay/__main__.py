"""`python -m scheduler.replay openb|philly|mig|snapshot …`; see `-h` of each."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from scheduler.replay.errors import ReplayError

KINDS = {
    "openb": "placements on Alibaba's openb nodes, by arrived load",
    "philly": "job completion times on Philly-derived traces",
    "mig": "MIG slices on seven-slice boards, by mix of demand",
    "snapshot": "one saved planning pass, and its explanation",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Each kind is a module here with `add(parser)` and `run(options) -> exit code`. A ReplayError
    is printed as one sentence on stderr, with exit code 2."""
    parser = argparse.ArgumentParser(prog="scheduler.replay", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    given = sys.argv[1:] if arguments is None else list(arguments)
    wanted = next((word for word in given if word in KINDS), "")
    for kind, help in KINDS.items():
        sub = kinds.add_parser(kind, help=help, description=help)
        if kind == wanted:  # importing a kind may compile its kernels
            importlib.import_module(f"scheduler.replay.{kind}").add(sub)
    options = parser.parse_args(given)
    module = importlib.import_module(f"scheduler.replay.{options.kind}")
    try:
        return int(module.run(options))
    except ReplayError as refused:
        print(f"replay {options.kind}: {refused}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
