"""One row in a process of its own: `python -m tests.gpu.use.row NUMBER FILE [STATE_FILE]`.

Ends with 0 where the row was done or is not possible here, 1 where it failed or tried what the
guards refuse.
"""

import os
import signal
import sys
import traceback
from pathlib import Path

from tests.gpu import guard
from tests.gpu.use import programs_guard
from tests.gpu.use.record import NotPossible, Record
from tests.gpu.use.rows import ROWS


def main(number: int, path: Path, simulated: Path | None) -> int:
    # At its time limit too, a row ends the daemons that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    enter(simulated)
    row = next(row for row in ROWS if row.number == number)
    record = Record(path, row=number, name=row.name, settles=row.settles, simulated=simulated)
    try:
        row.load()(record)
    except NotPossible as impossible:
        record.end("not_possible", str(impossible), guard.refused)
    except guard.Forbidden as forbidden:
        record.end("failed", str(forbidden), guard.refused)
    except Exception:
        record.end("failed", traceback.format_exc(), guard.refused)
    else:
        record.end(*outcome(record), guard.refused)
    return int(bool(guard.refused) or record.content["outcome"] == "failed")


def enter(simulated: Path | None) -> None:
    """Close the guards, and put the simulated driver in place where its state file is named. The
    variable that names one to agents counts here as little as at the read-only level."""
    os.environ.pop("TESSERA_SIMULATED_DRIVER", None)
    guard.close(events=True)
    programs_guard.close()
    if simulated is not None:
        from agents.simdriver.install import install  # noqa: PLC0415 - of no use to a real driver

        install(simulated)


def outcome(record: Record) -> tuple[str, str]:
    """Done if a step is done; a row of which no step is possible is itself not possible."""
    steps = record.content["steps"].values()
    ends = [step["outcome"] for step in steps]
    reasons = list(dict.fromkeys(step["reason"] for step in steps if step.get("reason")))
    if guard.refused or "failed" in ends:
        return "failed", "; ".join([*guard.refused, *reasons])
    if "done" in ends:
        return "done", ""
    return "not_possible", "; ".join(reasons) or "the row has no step for this machine"


if __name__ == "__main__":
    named = sys.argv[3:4]
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), Path(named[0]) if named else None))
