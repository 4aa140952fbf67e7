"""`python -m agents` behind this suite's guards: `guarded_agent.py REFUSED STATE_FILE WORDS...`.

REFUSED is the file that has, after the end, the names of the calls that were refused, one a line.
STATE_FILE is that of a simulated node, or empty.
"""

import atexit
import os
import sys
from pathlib import Path

from tests.gpu import guard
from tests.gpu.use.row import enter


def main(refused: Path, simulated: str, words: list[str]) -> int:
    enter(None)
    if simulated:
        os.environ["TESSERA_SIMULATED_DRIVER"] = simulated
    atexit.register(lambda: refused.write_text("\n".join(guard.refused), "utf-8"))
    from agents.__main__ import main as run  # noqa: PLC0415 - behind the guards

    return run(words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
