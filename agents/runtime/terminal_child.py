"""The parent process of a terminal under the process runtime. Run by path, stdlib only.

It runs a shell on the pseudoterminal that is its standard input, as the replica's own command runs,
and writes the shell's exit code to its channel. It ends all that the shell started, whatever became
of it, once the shell has ended, or the replica, or the agent closes the channel or dies. With
arguments it is another program, on the input, output and errors that it has.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
import time
from pathlib import Path

# <sys/prctl.h>: orphans of this process become its children.
PR_SET_CHILD_SUBREAPER = 36
# Between SIGHUP, by which shells end their jobs, and SIGKILL.
GRACE_SECONDS = 1.0
SHELLS = ("/bin/bash", "/bin/sh")
STARTED = b"started"
MISSING = b"missing"


def main(
    channel: socket.socket, leader: int, home: Path, program: str, arguments: list[str]
) -> None:
    """`leader`: a pidfd of the process that leads the replica's session. `program`: empty for the
    usual shell. One with arguments runs without a screen."""
    for descriptor in (channel.fileno(), leader):
        # They are none of the shell's.
        os.set_inheritable(descriptor, False)
    go = json.loads((home / "go.json").read_text("utf-8"))
    shells = [program] if program else list(SHELLS)
    path = next((each for each in shells if os.access(each, os.X_OK)), "")
    if not path or "command" not in go:
        channel.send(MISSING)
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        become_shell(go, path, arguments)
    leave_screen()
    channel.send(STARTED)
    shell = os.pidfd_open(pid)
    watched: list[socket.socket | int] = [channel, leader, shell]
    select.select(watched, [], [])
    ended = wait_for_shell(pid, shell)
    end_descendants()
    with contextlib.suppress(OSError):
        channel.send(str(ended).encode())


def become_shell(go: dict, path: str, arguments: list[str]) -> None:  # type: ignore[type-arg]  # plain JSON
    """In the forked process, which ends here."""
    try:
        # What the parent processes of replicas do, too, from the file beside this one.
        sys.path.insert(0, str(Path(__file__).parent))
        from child import reset_process  # type: ignore  # noqa: PLC0415

        reset_process()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.setsid()
        env = go["env"]
        if not arguments:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            # A shell is interactive if its errors go to the screen, too.
            os.dup2(0, 2)
            env = {**env, "TERM": "xterm-256color", "SHELL": path}
        os.chdir(go["cwd"])
        command = [*go.get("wrapper", ()), path, *arguments]
        os.execve(command[0], command, env)  # noqa: S606 - a path, without a shell
    finally:
        os._exit(127)


def leave_screen() -> None:
    """The pseudoterminal ends with the last process that has it open."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def wait_for_shell(pid: int, shell: int) -> int:
    """Its exit code, as shells report one; it is ended if it runs still."""
    with contextlib.suppress(ProcessLookupError):
        if not has_ended(shell, 0):
            for number in (signal.SIGHUP, signal.SIGCONT):
                os.killpg(pid, number)
        if not has_ended(shell, GRACE_SECONDS):
            os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def has_ended(pidfd: int, seconds: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


def end_descendants() -> None:
    """All of them: each that loses its parent becomes a child of this process."""
    deadline = time.monotonic() + GRACE_SECONDS
    number = signal.SIGHUP
    while pids := descendants():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() >= deadline:
            number = signal.SIGKILL
        time.sleep(0.02)


def descendants() -> list:  # type: ignore[type-arg]  # of ints
    """Of this process."""
    parents = {}
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (path / "stat").read_text("utf-8", "replace")
            parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    family = {os.getpid()}
    while children := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= children
    return sorted(family - {os.getpid()})


if __name__ == "__main__":
    own, watched, folder, shell, *words = sys.argv[1:]
    main(socket.socket(fileno=int(own)), int(watched), Path(folder), shell, words)
