"""Which ends of a client may have harmed its neighbours. Pure.

MPS isolates memory addresses, not faults: a fatal fault of one client is reported to all clients on
the GPU, and a client that is killed in the middle of its work leaves the server in a state that
NVIDIA's guide calls undefined.
"""

import signal

from agents.runtime.base import ContainerStatus

EXIT_BY_SIGTERM = 128 + signal.SIGTERM


def died_by_signal(status: ContainerStatus, *, stop_requested: bool) -> bool:
    """Whether a signal ended it: an exit code above 128 is 128 + the signal.

    SIGTERM after a requested stop does not count: the program chose not to handle it."""
    code = status.exit_code or 0
    return code > 128 and not (stop_requested and code == EXIT_BY_SIGTERM)


def may_have_harmed_neighbours(
    status: ContainerStatus, *, stop_requested: bool, has_server_fault: bool
) -> bool:
    """`has_server_fault`: a server of the same daemon is in state FAULT."""
    has_died = died_by_signal(status, stop_requested=stop_requested)
    return has_died or bool(status.exit_code and has_server_fault)


def neighbour_sentence(status: ContainerStatus) -> str:
    return (
        f"neighbour rank {status.rank} of job {status.job} ended abnormally"
        f" (exit code {status.exit_code}): this share may be affected"
    )


def gpu_sentence(reason: str) -> str:
    return f"{reason}: this share may be affected"
