"""Runs a program as the user of a share's jobs, with their shared memory at /dev/shm.

Run by path, as root: `exec_as_user.py UID SHM /PROGRAM ...`. SHM is bound over /dev/shm in a new
mount namespace, so that the daemon shares it with its clients alone. Standard library only.
"""

import ctypes
import os
import sys

# linux/sched.h and linux/mount.h.
CLONE_NEWNS = 0x0002_0000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x8_0000


def main(uid: int, shm: str, program: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.unshare(CLONE_NEWNS), "unshare")
    # Mounts of the host still propagate into the namespace; ours do not leave it.
    _done(libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "mount /")
    _done(libc.mount(os.fsencode(shm), b"/dev/shm", None, MS_BIND, None), "mount /dev/shm")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    os.chdir("/")
    try:
        os.execv(program[0], program)  # noqa: S606 - the program that the agent named
    except OSError as error:
        raise SystemExit(f"uid {uid} cannot run {program[0]}: {error.strerror}") from error


def _done(answer: int, what: str) -> None:
    if answer:
        raise SystemExit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
