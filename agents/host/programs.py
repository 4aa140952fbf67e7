"""Runs a program of the host by its path, without a shell, and keeps only why it failed."""

import subprocess

# Where administrators' programs are; the agent's own PATH does not count.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": SEARCH_PATH, "LC_ALL": "C"}
MAX_CHARACTERS = 200


def program_failure(seconds: float, program: str, *arguments: str) -> str:
    """Why the program failed, in the last words it printed; empty if it exited with 0.

    `seconds`: it is killed when it runs longer."""
    try:
        done = subprocess.run(  # noqa: S603 - a path of the node's policy, an argument list
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            env=ENVIRONMENT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{program} did not end within {seconds:.0f} s"
    except OSError as error:
        return f"{program} cannot be run: {error.strerror}"
    if done.returncode == 0:
        return ""
    output = " ".join(done.stdout.decode("utf-8", "replace").split())[-MAX_CHARACTERS:]
    return f"{program} ended with {done.returncode}: {output}"
