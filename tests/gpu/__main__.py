"""`python3 -m tests.gpu [--level LEVEL] [--rows ROWS] [--simulated STATE_FILE] [pytest's words]`:
the suite on the driver of this machine, or on a simulated node, which proves the suite and no GPU.

Level `read`, the default, only reads. Level `use` has its own CUDA context and memory on the GPU;
`--rows 1-4,12` chooses some of its rows.

Ends with 0 where every check passed, 1 where one failed or a setting changed meanwhile, 2 where the
suite could not run, 3 where no driver answers and so nothing was tested.
"""

import argparse
import os
import sys
from pathlib import Path

from tests.gpu.environment import Missing, interpreter

UNUSABLE = 2
RESTARTED = "TESSERA_TEST_GPU_RESTARTED"


def main(arguments: "list[str]") -> int:
    """In this Python if it has what the suite needs, else in one that has it."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu", description=__doc__)
    parser.add_argument("--simulated", type=Path, metavar="STATE_FILE")
    parser.add_argument("--level", choices=("read", "use"), default="read")
    parser.add_argument("--rows", default="", help="of level use, such as 1-4,12 (default: all)")
    options, others = parser.parse_known_args(arguments)
    if RESTARTED not in os.environ:
        try:
            python = interpreter()
        except Missing as missing:
            sys.stderr.write(f"{missing}\n")
            return UNUSABLE
        if python != sys.executable:
            os.environ[RESTARTED] = "1"
            os.execv(python, [python, "-m", "tests.gpu", *arguments])
    # What they import may be missing until here.
    if options.level == "use":
        from tests.gpu.use.suite import run as run_rows  # noqa: PLC0415

        return run_rows(options.simulated, options.rows)
    from tests.gpu.suite import run  # noqa: PLC0415

    return run(options.simulated, others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
