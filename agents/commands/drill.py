"""`agents drill`: does the agent survive its own end?

Ends it at every point of a script, or (`--random`) walks through wishes and faults. Simulated
driver, real journal; no GPU and no portal needed. Exit status 1 where a promise was broken.
"""

import argparse
import json
import logging
import sys
from typing import Any

from agents.drill.crash import crash_drill
from agents.drill.walk import random_walk


def main(options: argparse.Namespace) -> int:
    # What the agent says while it is ended a thousand times is not what one wants to read.
    logging.disable(logging.CRITICAL)
    if options.random:
        told = random_walk(operations=options.random, seed=options.seed)
        is_good = not told["violations"]
    else:
        report = crash_drill(every=options.every, workers=options.workers)
        told, is_good = report.as_dict(), report.is_good
    _tell(told, as_json=options.json)
    return 0 if is_good else 1


def _tell(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.writelines(f"{name:<16} {value}\n" for name, value in told.items())
