"""The job of the benchmarks: prints a line, runs for a moment, and notes when that was."""

from pathlib import Path

from tests.benchmarks.control_plane.replicas import ReplicaTimes

# Shell builtins and one `sleep`: the job itself should cost next to nothing.
PROGRAM = (
    's=$EPOCHREALTIME; echo started; sleep {seconds}; echo "${key:-$1} $s $EPOCHREALTIME" >> {path}'
)


def job_script(seconds: float, times: Path, key: str) -> str:
    """For bash. It adds a line to the file `times`: the variable `key` of its environment (its
    first argument where there is none), when it began and when it ended."""
    program = PROGRAM.replace("{seconds}", f"{seconds:g}").replace("{path}", f"'{times}'")
    return program.replace("key:-", f"{key}:-")


def read_times(times: Path) -> list[ReplicaTimes]:
    """Of the jobs that have ended."""
    if not times.exists():
        return []
    # Lines are short, so each was written at once; the last one may be under way.
    lines = times.read_text().rpartition("\n")[0].splitlines()
    words = (line.split() for line in lines)
    return [ReplicaTimes(key, float(began), float(ended)) for key, began, ended in words]
