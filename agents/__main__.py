"""`python -m agents COMMAND`: reads the arguments and hands them to the command's own file."""

import importlib
import sys

from agents.settings import parser


def main(arguments: list[str]) -> int:
    """The command's exit status. Only its own file is loaded: what reads a node's hardware works
    where neither Docker's nor the portal's libraries are installed."""
    options = parser().parse_args(arguments)
    command = importlib.import_module(f"agents.commands.{options.command}")
    return int(command.main(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
