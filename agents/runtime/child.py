"""The parent processes of replicas under the process runtime. Run by path, stdlib only.

Each agent starts one server, and each replica's parent is a fork of it: a Python start for each
replica would cost 7 ms of processor time, and its imports 17 more. The server has no environment,
no file of the agent but one socket, and ends with the agent. Parents stay.

A parent waits for the start signal, runs the command, and writes down its exit code, so that the
exit code survives an agent that was killed. It leads its own session and ignores SIGTERM, which the
agent sends to the whole group.
"""

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

# How often it checks whether its folder still exists. The start signal wakes it at once.
POLL_SECONDS = 2.0
# Of a request and of its answer; Linux allows no longer paths.
MAX_MESSAGE_BYTES = 4_096


def serve(channel: socket.socket) -> None:
    """Fork a parent for each folder that arrives. Returns when the agent has ended.

    The answer is the parent's process id, sent by itself as soon as signals to its group reach it;
    or `!` and the reason if there is none."""
    # What is imported is not looked at again, so that its pages stay shared with every parent.
    gc.freeze()
    signal.signal(signal.SIGCHLD, reap)
    while home := channel.recv(MAX_MESSAGE_BYTES):
        try:
            pid = os.fork()
        except OSError as error:
            channel.send(f"!{error.strerror}".encode())
            continue
        if pid == 0:
            become_parent(channel, Path(os.fsdecode(home)))


def reap(*_: object) -> None:
    """Let go of the parents that have ended. Their exit code says nothing: exit.json does."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become_parent(channel: socket.socket, home: Path) -> None:
    """In the forked process, which ends here."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()
        # An agent that died meanwhile is no reason to end: the folder is.
        with channel, contextlib.suppress(OSError):
            channel.send(str(os.getpid()).encode())
        main(home)
        status = 0
    finally:
        os._exit(status)


def main(home: Path) -> None:
    # Opened for both directions: it neither blocks nor ends when the agent goes away.
    gate = os.open(home / "gate", os.O_RDWR)
    # The signal may have come before the gate was open here; then go.json exists already.
    while not (home / "go.json").exists() and not select.select([gate], [], [], POLL_SECONDS)[0]:
        if os.fstat(gate).st_nlink == 0:
            return  # the folder was removed: the start signal will never come
    os.close(gate)
    # An agent that died before it wrote down its child starts another one in the same folder, and
    # both wait at one gate. Only the recorded one continues.
    if json.loads((home / "identity.json").read_text("utf-8"))["pid"] != os.getpid():
        return
    go = json.loads((home / "go.json").read_text("utf-8"))
    ended = run(home, go)
    # Its environment may hold secrets, and is not needed any more.
    with contextlib.suppress(OSError):
        write(home / "go.json", {})
    write(home / "exit.json", ended)


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
                preexec_fn=reset_process,
            )
        except OSError as error:
            log.write(f"cannot start {go['command'][0]!r}: {error.strerror}\n".encode())
            return {"exit_code": 127}
        code = process.wait()
    # As shells and Docker report it: 128 + signal.
    return {"exit_code": code if code >= 0 else 128 - code}


def reset_process() -> None:
    """Restore the default signal handlers, allow no core file, and give up the protection from the
    kernel's OOM killer that an agent has as a service."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unprotect(Path("/proc/self/oom_score_adj"))


def unprotect(score: Path) -> None:
    """Raise a score below 0, by which the kernel's OOM killer spares a process, to 0."""
    with contextlib.suppress(OSError, ValueError):
        if int(score.read_text("ascii")) < 0:
            score.write_text("0", "ascii")


def write(path: Path, value: object) -> None:
    """Write atomically: a reader sees all of it or nothing."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value), "utf-8")
    part.replace(path)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[2])))
