"""`python -m agents COMMAND`: parses the arguments and runs the command's own module."""

import importlib
import sys

from agents.settings import parser


def main(arguments: list[str]) -> int:
    """The command's exit status.

    Only its own module is imported, so commands that read the hardware work without the libraries
    for Docker and HTTP."""
    options = parser().parse_args(arguments)
    command = importlib.import_module(f"agents.commands.{options.command.replace('-', '_')}")
    return int(command.main(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
