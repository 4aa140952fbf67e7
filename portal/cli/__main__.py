"""The `tessera` command; also `python -m portal.cli`."""

import sys
from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    if find_spec("typer") is None:
        sys.exit("The packages of tessera are not installed: pip install 'tessera-gpu[cli]'")
    import_module("portal.cli.main").app(prog_name="tessera")


if __name__ == "__main__":
    main()
