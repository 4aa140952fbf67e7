"""Which end of a client may have hurt its neighbours, and how they are told. Pure.

MPS isolates memory addresses, not faults: a fatal fault of one client is told to all clients on the
GPU, and a client that was killed in the middle of its work leaves the server in a state that
NVIDIA's guide calls undefined.
"""

import signal

from agents.runtime.base import ContainerStatus

ASKED_TO_END = 128 + signal.SIGTERM


def died_by_signal(seen: ContainerStatus, *, asked: bool) -> bool:
    """A container's exit code above 128 is 128 + the signal. One that was asked to end, and ended
    by the signal that asks, ended well: nothing of it was cut off that its program kept."""
    code = seen.exit_code or 0
    return code > 128 and not (asked and code == ASKED_TO_END)


def may_have_hurt(seen: ContainerStatus, *, asked: bool, fault: bool) -> bool:
    """`fault`: a server of the same daemon says FAULT."""
    return died_by_signal(seen, asked=asked) or bool(seen.exit_code and fault)


def of_neighbour(seen: ContainerStatus) -> str:
    return (
        f"neighbour rank {seen.rank} of job {seen.job} died badly (exit code {seen.exit_code}): "
        "this share may have been hurt"
    )


def of_gpu(why: str) -> str:
    return f"{why}: this share may have been hurt"
