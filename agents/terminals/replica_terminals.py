"""How terminals are opened in this node's replicas: in one of the attempt, and while it runs."""

from collections.abc import Callable

from agents.contract.terminal import TerminalTarget
from agents.contract.tunnel import StreamRefusal
from agents.runtime.base import ContainerPhase, Runtime
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_ports import running_container
from agents.runtime.docker_terminal import end_leftover_terminals, open_docker_terminal
from agents.runtime.process import ProcessRuntime
from agents.runtime.process_terminal import open_process_terminal
from agents.runtime.terminal import ReplicaTerminal, ShellMissing
from agents.tunnel.link import OpenRefused

# Opens a shell in the replica that is named. Raises OpenRefused, and whatever the runtime does.
OpenTerminal = Callable[[TerminalTarget], ReplicaTerminal]


def replica_terminals(runtime: Runtime) -> OpenTerminal:
    """For the replicas of this runtime."""

    def open_terminal(target: TerminalTarget) -> ReplicaTerminal:
        try:
            if isinstance(runtime, DockerRuntime):
                return _in_container(runtime, target)
            if isinstance(runtime, ProcessRuntime):
                return _in_process(runtime, target)
        except ShellMissing:
            raise OpenRefused(StreamRefusal.SHELL_MISSING) from None
        raise OpenRefused(StreamRefusal.FAILED)

    return open_terminal


def end_leftovers(runtime: Runtime) -> None:
    """What terminals of an earlier agent have left. Raises what the runtime does."""
    if isinstance(runtime, DockerRuntime):
        end_leftover_terminals(runtime)


def _in_container(runtime: DockerRuntime, target: TerminalTarget) -> ReplicaTerminal:
    container = running_container(runtime.client, runtime.node, target.attempt, target.rank)
    if container is None:
        raise OpenRefused(StreamRefusal.REPLICA_UNKNOWN)
    return open_docker_terminal(runtime, container, target.program, target.columns, target.rows)


def _in_process(runtime: ProcessRuntime, target: TerminalTarget) -> ReplicaTerminal:
    for status in runtime.containers().values():
        is_target = (status.fence, status.rank) == (target.attempt, target.rank)
        if is_target and status.phase is ContainerPhase.RUNNING:
            return open_process_terminal(
                runtime, status.replica, target.program, target.columns, target.rows
            )
    raise OpenRefused(StreamRefusal.REPLICA_UNKNOWN)
