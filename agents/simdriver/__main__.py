"""`python -m agents.simdriver create|show|inject`: another name of `python -m agents simulate`."""

import argparse
import sys

from agents.simdriver.arguments import add_arguments
from agents.simdriver.command import main as simulate


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m agents.simdriver", description=__doc__)
    add_arguments(parser)
    return simulate(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
