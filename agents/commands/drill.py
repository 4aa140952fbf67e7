"""`agents drill`: checks that the agent recovers when it is killed.

Kills it at every point of a script or, with `--random`, among random requests and faults. Uses a
simulated driver and a real journal; needs no GPU and no portal. With `--runtime docker` the
replicas are containers of a real engine. Exit status: 1 if an invariant was violated, 2 if no
engine responds.
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
    # The log of an agent that is killed a thousand times is of no use.
    logging.disable(logging.CRITICAL)
    try:
        result, is_good = _run(options)
    except NoEngine as error:
        sys.stderr.write(f"{error}\n")
        return 2
    _print(result, as_json=options.json)
    return 0 if is_good else 1


def _run(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    if options.random:
        result = random_walk(operations=options.random, seed=options.seed)
        return result, not result["violations"]
    if options.runtime is RuntimeKind.DOCKER:
        if options.engine:
            os.environ["DOCKER_HOST"] = options.engine
        image = options.image or IMAGE
        report = docker_drill(image=image, every=options.every, workers=options.workers)
    else:
        report = crash_drill(every=options.every, workers=options.workers)
    return report.as_dict(), report.is_good


def _print(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        sys.stdout.writelines(f"{name:<16} {value}\n" for name, value in result.items())
