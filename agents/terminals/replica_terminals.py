"""How terminals and SSH are opened in this node's replicas: of the attempt, and while it runs."""

from collections.abc import Callable

from agents.contract.ssh import KEY_KIND, SshTarget
from agents.contract.terminal import TerminalTarget
from agents.contract.tunnel import StreamRefusal
from agents.runtime.base import Runtime
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_ssh import open_docker_ssh
from agents.runtime.docker_terminal import end_leftover_terminals, open_docker_terminal
from agents.runtime.process import ProcessRuntime
from agents.runtime.process_ssh import open_process_ssh
from agents.runtime.process_terminal import open_process_terminal
from agents.runtime.running_replica import running_container, running_replica
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
        shell = (target.program, target.columns, target.rows)
        try:
            if isinstance(runtime, DockerRuntime):
                container = running_container(runtime, target)
                return open_docker_terminal(runtime, container, *shell)
            if isinstance(runtime, ProcessRuntime):
                replica = running_replica(runtime, target).replica
                return open_process_terminal(runtime, replica, *shell)
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
                container = running_container(runtime, target)
                return open_docker_ssh(runtime, container, client_key)
            if isinstance(runtime, ProcessRuntime):
                replica = running_replica(runtime, target).replica
                return open_process_ssh(runtime, replica, client_key)
        except ShellMissing:
            # Without a shell there is no way to start one.
            raise OpenRefused(StreamRefusal.SSHD_MISSING) from None
        raise OpenRefused(StreamRefusal.FAILED)

    return open_ssh
