"""The small parent of one replica under the process runtime. Standard library only, run by path.

It waits for the word to go, runs the command, and writes down how it ended: so that the exit code
outlives an agent that was killed. It is the leader of its own session and ignores SIGTERM, which
the agent sends to the whole group.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

# How often it looks whether it is still wanted. The word to go wakes it at once.
POLL_SECONDS = 2.0


def main(home: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Opened for both directions: it neither blocks nor ends when the agent goes away.
    gate = os.open(home / "gate", os.O_RDWR)
    # The word may have been said before the gate was open here; then go.json stands there already.
    while not (home / "go.json").exists() and not select.select([gate], [], [], POLL_SECONDS)[0]:
        if os.fstat(gate).st_nlink == 0:
            return  # the folder was removed: nobody will ever say go
    os.close(gate)
    # An agent that died before it wrote down its child began another one at the same place, and
    # both wait at one gate. Only the one that is written down goes.
    if json.loads((home / "identity.json").read_text("utf-8"))["pid"] != os.getpid():
        return
    go = json.loads((home / "go.json").read_text("utf-8"))
    write(home / "exit.json", run(home, go))


def run(home: Path, go: dict) -> dict:  # type: ignore[type-arg]  # plain JSON
    with (home / "log").open("ab", buffering=0) as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
                go["command"],
                env=go["env"],
                cwd=go["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=reset_signals,
            )
        except OSError as error:
            log.write(f"cannot start {go['command'][0]!r}: {error.strerror}\n".encode())
            return {"exit_code": 127}
        code = process.wait()
    # As a shell and Docker tell it: 128 + signal.
    return {"exit_code": code if code >= 0 else 128 - code}


def reset_signals() -> None:
    """The command handles signals as it likes, and leaves no core file."""
    import resource  # noqa: PLC0415 - only in the child, to keep the start of this program short

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def write(path: Path, value: object) -> None:
    """In one step: a reader sees all of it or nothing."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value), "utf-8")
    part.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
