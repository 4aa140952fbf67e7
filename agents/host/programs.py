"""Runs the two programs of NVIDIA that change what NVML cannot: by path, without a shell."""

import subprocess

from agents.doctor.machine import SEARCH

ENVIRONMENT = {"PATH": SEARCH, "LC_ALL": "C"}
MOST_WORDS = 200


def refusal(seconds: float, program: str, *arguments: str) -> str:
    """Why the program did not do it, in its own last words; empty where it ended well."""
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
    said = " ".join(done.stdout.decode("utf-8", "replace").split())[-MOST_WORDS:]
    return f"{program} ended with {done.returncode}: {said}"
