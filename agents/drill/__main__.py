"""`python -m agents.drill [--every N] [--json]`: does the agent survive its end at any point?"""

import argparse
import json
import os
import sys

from agents.drill.crash import crash_drill


def main(arguments: list[str]) -> int:
    """1 where a promise was broken. Simulated driver, real processes and journal; no GPU needed."""
    parser = argparse.ArgumentParser(prog="python -m agents.drill", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every Nth point (1: all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    options = parser.parse_args(arguments)
    report = crash_drill(every=options.every, workers=options.workers)
    told = report.as_dict()
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.writelines(f"{name:<16} {value}\n" for name, value in told.items())
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
