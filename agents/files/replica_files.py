"""The files of a node's replicas, as its loop sees them."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.files.fetched import fetched_commit
from agents.files.file_calls import FileCalls
from agents.files.inputs import FetchGit, ReplicaInputs, refuse_git
from agents.files.outbox import Outbox
from agents.files.outputs import ReplicaOutputs
from agents.runtime.base import ContainerStatus
from agents.workspace.folders import ReplicaFolders


class ReplicaFiles:
    """`work`: the folder of all workspaces; the outbox lies beside it, on the same file system."""

    def __init__(
        self,
        calls: FileCalls,
        work: Path,
        folders: Callable[[str], ReplicaFolders],
        wake: Callable[[], None],
        fetch_git: FetchGit = refuse_git,
    ) -> None:
        self._folders = folders
        outbox = Outbox(work.parent / "outbox")
        self._outputs = ReplicaOutputs(outbox, calls, folders, wake)
        self._inputs = ReplicaInputs(calls, wake, _start_thread, fetch_git)

    def start(self) -> None:
        self._outputs.start()

    def close(self) -> None:
        self._outputs.close()

    def deliver(self, replica: DesiredReplica, make_folders: Callable[[], ReplicaFolders]) -> None:
        """As `ReplicaInputs.deliver`."""
        self._inputs.deliver(replica, make_folders)

    def settle(self, containers: Mapping[str, ContainerStatus]) -> dict[str, ContainerStatus]:
        """As `ReplicaOutputs.settle`."""
        return self._outputs.settle(containers)

    def fetching(self, replicas: Iterable[DesiredReplica]) -> frozenset[str]:
        """Those, of all that are desired now, that cannot be prepared yet."""
        return self._inputs.fetching(replicas)

    def commits(self, replicas: Iterable[DesiredReplica]) -> Mapping[str, str]:
        """By replica, the commit of its code, where a repository has it and it is fetched."""
        own = {one.id: fetched_commit(self._folders(one.id)) for one in replicas if one.code_git}
        return {replica: commit for replica, commit in own.items() if commit}

    def settling(self) -> frozenset[str]:
        """Replicas that have ended, and count as running until their last checkpoint is sent."""
        return self._outputs.settling

    def before_removal(self, replica: str) -> None:
        """Take what a replica that has ended has written for the portal."""
        self._outputs.before_removal(replica)

    def keep(self, replicas: Collection[str]) -> None:
        """Forget all others."""
        self._inputs.keep(replicas)
        self._outputs.keep(replicas)


class NoFiles(ReplicaFiles):
    """For a node without a portal, as in a drill."""

    def __init__(self) -> None:
        """Nothing is sent or fetched."""

    def start(self) -> None:
        """There are no threads."""

    def close(self) -> None:
        """There are no threads."""

    def deliver(self, replica: DesiredReplica, make_folders: Callable[[], ReplicaFolders]) -> None:
        """There is nothing to fetch."""

    def settle(self, containers: Mapping[str, ContainerStatus]) -> dict[str, ContainerStatus]:
        return dict(containers)

    def fetching(self, replicas: Iterable[DesiredReplica]) -> frozenset[str]:
        return frozenset()

    def commits(self, replicas: Iterable[DesiredReplica]) -> Mapping[str, str]:
        return {}

    def settling(self) -> frozenset[str]:
        return frozenset()

    def before_removal(self, replica: str) -> None:
        """What was written is removed."""

    def keep(self, replicas: Collection[str]) -> None:
        """Nothing is known."""


def _start_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="inputs", daemon=True).start()
