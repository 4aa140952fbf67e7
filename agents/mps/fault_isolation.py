"""Which ends of a client may have harmed its neighbours. Pure.

MPS isolates memory addresses, not faults: a fatal fault of one client is reported to all clients on
the GPU, and so is the end by a signal, SIGTERM or SIGKILL, of a client whose kernel runs. A client
that the daemon disconnected first harms nobody (measured on an H200 with driver 580: row 9 of
`make test-gpu LEVEL=use`).
"""

from agents.runtime.base import ContainerStatus


def may_have_harmed_neighbours(
    status: ContainerStatus, *, disconnected: bool, has_server_fault: bool
) -> bool:
    """`disconnected`: from its server, before it ended. `has_server_fault`: a server of the same
    daemon is in state FAULT."""
    code = status.exit_code or 0
    # Above 128 it is 128 + the signal that ended it.
    return (code > 128 and not disconnected) or bool(code and has_server_fault)


def neighbour_sentence(status: ContainerStatus) -> str:
    return (
        f"neighbour rank {status.rank} of job {status.job} ended abnormally"
        f" (exit code {status.exit_code}): this share may be affected"
    )


def gpu_sentence(reason: str) -> str:
    return f"{reason}: this share may be affected"
