"""`python -m tests.benchmarks.forecasts [ROW …]`: how good expected starts are on the traces.

Runs `scheduler.replay philly` row by row, one process at a time, and prints its JSON line of each.
A row is trace:policy:seed, such as trace3_pr:easy:2; without any all of ROWS are run, which takes
10 to 40 minutes. Traces are those of FORECASTS_TRACES, or ../shared/data/philly_muri.
"""

import os
import subprocess
import sys
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "philly_muri"
# Every so many-th job that waits is asked about.
EVERY = {
    ("trace3", "easy"): 4,
    ("trace3", "tessera"): 4,
    ("trace1", "easy"): 12,
    ("trace1", "tessera"): 5,
}
ROWS = [
    f"{trace}{kind}:{policy}:{seed}"
    for kind in ("_pr", "")
    for seed in (1, 2, 3)
    for trace, policy in EVERY
]


def main() -> int:
    folder = Path(os.environ.get("FORECASTS_TRACES", BESIDE))
    if not folder.exists():
        print(f"{folder} has no traces; give their folder as FORECASTS_TRACES", file=sys.stderr)
        return 2
    for row in sys.argv[1:] or ROWS:
        done = subprocess.run(command(folder, *row.split(":")), check=False)
        if done.returncode:
            return done.returncode
    return 0


def command(folder: Path, trace: str, policy: str, seed: str) -> list[str]:
    """The replay of one row."""
    every = EVERY[trace.removesuffix("_pr"), policy]
    told = ["--policy", policy, "--limits", "1-5", "--preemption", "off", "--seed", seed]
    asked = ["--trace", str(folder / f"{trace}.csv"), "--forecasts", str(every), "--json"]
    return [sys.executable, "-m", "scheduler.replay", "philly", *asked, *told]


if __name__ == "__main__":
    sys.exit(main())
