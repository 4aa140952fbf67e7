"""Runs a program of the host by its path, without a shell."""

import subprocess
from dataclasses import dataclass

# Where administrators' programs are; the agent's own PATH does not count.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": SEARCH_PATH, "LC_ALL": "C"}
MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Why a program failed, in the last words it printed, and its standard output."""

    # Empty if it exited with 0.
    failure: str
    output: str = ""


def program_failure(seconds: float, program: str, *arguments: str) -> str:
    """Why the program failed, in the last words it printed; empty if it exited with 0.

    `seconds`: it is killed when it runs longer."""
    return run_program(seconds, program, *arguments).failure


def run_program(
    seconds: float, program: str, *arguments: str, input_text: str = ""
) -> ProgramResult:
    """As `program_failure`, with what it printed. `input_text`: its standard input."""
    try:
        done = subprocess.run(  # noqa: S603 - a path of the node's policy, an argument list
            [program, *arguments],
            input=input_text.encode(),
            capture_output=True,
            timeout=seconds,
            env=ENVIRONMENT,
            # What it makes, such as device nodes, is for others too; the agent's own files are not.
            umask=0o022,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProgramResult(f"{program} did not end within {seconds:.0f} s")
    except OSError as error:
        return ProgramResult(f"{program} cannot be run: {error.strerror}")
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0:
        return ProgramResult("", output)
    words = f"{output} {done.stderr.decode('utf-8', 'replace')}".split()
    last = " ".join(words)[-MAX_CHARACTERS:]
    return ProgramResult(f"{program} ended with {done.returncode}: {last}")
