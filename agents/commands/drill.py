"""`agents drill`: does the agent survive its own end?

Ends it at every point of a script, or (`--random`) walks through wishes and faults. Simulated
driver, real journal; no GPU and no portal needed. With `--runtime docker` the replicas are
containers of a real engine. Exit status 1 where a promise was broken, 2 where no engine answers.
"""

import argparse
import json
import logging
import os
import sys
from typing import Any

from agents.contract.documents import RuntimeKind
from agents.drill.crash import crash_drill
from agents.drill.docker_crash import IMAGE, NoEngine, docker_drill
from agents.drill.random_walk import random_walk


def main(options: argparse.Namespace) -> int:
    # What the agent says while it is ended a thousand times is not what one wants to read.
    logging.disable(logging.CRITICAL)
    try:
        told, is_good = _drilled(options)
    except NoEngine as error:
        sys.stderr.write(f"{error}\n")
        return 2
    _tell(told, as_json=options.json)
    return 0 if is_good else 1


def _drilled(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    if options.random:
        told = random_walk(operations=options.random, seed=options.seed)
        return told, not told["violations"]
    if options.runtime is RuntimeKind.DOCKER:
        if options.engine:
            os.environ["DOCKER_HOST"] = options.engine
        image = options.image or IMAGE
        report = docker_drill(image=image, every=options.every, workers=options.workers)
    else:
        report = crash_drill(every=options.every, workers=options.workers)
    return report.as_dict(), report.is_good


def _tell(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.writelines(f"{name:<16} {value}\n" for name, value in told.items())
