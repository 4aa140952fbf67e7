"""How terminals and SSH are opened in this node's replicas: of the attempt, and while it runs."""

from collections.abc import Callable

from docker.models.containers import Container

from agents.contract.ssh import KEY_KIND, SshTarget
from agents.contract.terminal import TerminalTarget
from agents.contract.tunnel import StreamRefusal
from agents.runtime.base import ContainerPhase, Runtime
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_ports import running_container
from agents.runtime.docker_ssh import open_docker_ssh
from agents.runtime.docker_terminal import end_leftover_terminals, open_docker_terminal
from agents.runtime.process import ProcessRuntime
from agents.runtime.process_ssh import open_process_ssh
from agents.runtime.process_terminal import open_process_terminal
from agents.runtime.ssh_server import SshServer
from agents.runtime.terminal import ReplicaTerminal, ShellMissing
from agents.tunnel.link import OpenRefused

# Opens a shell in the replica that is named. Raises OpenRefused, and whatever the runtime does.
OpenTerminal = Callable[[TerminalTarget], ReplicaTerminal]
# The same for an SSH server.
OpenSsh = Callable[[SshTarget], SshServer]


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
    """What terminals and SSH of an earlier agent have left. Raises what the runtime does."""
    if isinstance(runtime, DockerRuntime):
        end_leftover_terminals(runtime)


def replica_ssh(runtime: Runtime) -> OpenSsh:
    """For the replicas of this runtime."""

    def open_ssh(target: SshTarget) -> SshServer:
        client_key = f"{KEY_KIND} {target.client_key}"
        try:
            if isinstance(runtime, DockerRuntime):
                return open_docker_ssh(runtime, _container(runtime, target), client_key)
            if isinstance(runtime, ProcessRuntime):
                return open_process_ssh(runtime, _running(runtime, target), client_key)
        except ShellMissing:
            # Without a shell there is no way to start one.
            raise OpenRefused(StreamRefusal.SSHD_MISSING) from None
        raise OpenRefused(StreamRefusal.FAILED)

    return open_ssh


def _in_container(runtime: DockerRuntime, target: TerminalTarget) -> ReplicaTerminal:
    container = _container(runtime, target)
    return open_docker_terminal(runtime, container, target.program, target.columns, target.rows)


def _in_process(runtime: ProcessRuntime, target: TerminalTarget) -> ReplicaTerminal:
    replica = _running(runtime, target)
    return open_process_terminal(runtime, replica, target.program, target.columns, target.rows)


def _container(runtime: DockerRuntime, target: TerminalTarget | SshTarget) -> Container:
    """Raises OpenRefused."""
    found = running_container(runtime.client, runtime.node, target.attempt, target.rank)
    if found is None:
        raise OpenRefused(StreamRefusal.REPLICA_UNKNOWN)
    return found


def _running(runtime: ProcessRuntime, target: TerminalTarget | SshTarget) -> str:
    """The id of the replica. Raises OpenRefused."""
    for status in runtime.containers().values():
        is_target = (status.fence, status.rank) == (target.attempt, target.rank)
        if is_target and status.phase is ContainerPhase.RUNNING:
            return status.replica
    raise OpenRefused(StreamRefusal.REPLICA_UNKNOWN)
