"""`python -m tests.mutants`: break the code on purpose, and print what no test noticed, as JSON.

Sampled and seeded: the same seed takes the same mutants, also after other code has changed. What
was found is kept in `--state`, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from pathlib import Path

from tests.mutants.areas import AREAS, LEVELS, REPOSITORY
from tests.mutants.runs import MutationRun


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--minutes", type=float, default=240, help="begin nothing new after (240)")
    parser.add_argument("--processes", type=int, default=2, help="trials at a time (2)")
    parser.add_argument("--levels", default=",".join(LEVELS), help="levels of tests to run")
    parser.add_argument("--areas", default=",".join(AREAS), help="areas to mutate")
    parser.add_argument("--budget", type=float, default=60, help="CPU seconds of tests each (60)")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--state", type=Path, default=REPOSITORY / "var" / "mutants")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    with closing(MutationRun(options)) as run:
        run.record()
        run.try_all()
    json.dump(run.summary(), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
