"""`tessera-agent COMMAND`, in a checkout `python -m agents COMMAND`: parses the arguments and runs
the command's own module."""

import importlib
import sys
from collections.abc import Sequence

from agents.settings import parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command's exit status.

    Only its own module is imported, so commands that read the hardware work without the libraries
    for Docker and HTTP."""
    options = parser().parse_args(arguments)
    try:
        command = importlib.import_module(f"agents.commands.{options.command.replace('-', '_')}")
    except ModuleNotFoundError as missing:
        if (missing.name or "agents").partition(".")[0] == "agents":
            raise
        sentence = f"{missing.name} is not installed: pip install 'tessera-gpu[agent]'"
        raise SystemExit(sentence) from missing
    return int(command.main(options))


if __name__ == "__main__":
    sys.exit(main())
