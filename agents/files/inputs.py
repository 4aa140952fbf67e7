"""What a replica starts with: its code, and the newest checkpoint of its job. Fetched before it is
prepared, beside everything else that the node does.

Code of a git repository is fetched by every replica of a gang. What a branch means may change
between two fetches, so all but rank 0 wait until the portal names the commit that rank 0 has."""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable

from agents.contract.documents import DesiredReplica
from agents.contract.errors import ContractError
from agents.contract.file_transfer import TreeKind
from agents.contract.git_source import is_commit_source
from agents.files.fetched import has_fetched, note_commit, note_fetched
from agents.files.fetching import TreeAbsent, fetch_tree
from agents.files.file_calls import FileCalls, FilesRefused, PortalAway
from agents.files.tree_writing import empty_folder
from agents.runtime.base import RuntimeFailure
from agents.workspace.environment import has_code
from agents.workspace.folders import ReplicaFolders

log = logging.getLogger("agents.files.inputs")

FetchGit = Callable[[DesiredReplica, ReplicaFolders], str]
"""Write the code folder of a replica as its repository has it: the commit. Raises RuntimeFailure
and OSError."""


def refuse_git(replica: DesiredReplica, folders: ReplicaFolders) -> str:
    """For a node that fetches no code of repositories."""
    raise RuntimeFailure("git_forbidden", "this node fetches no code from git repositories")


def needs_commit(replica: DesiredReplica) -> bool:
    """Whether the commit of its code is still to be named by rank 0 of its gang."""
    code = replica.code_git
    is_open = code is not None and not code.commit and not is_commit_source(code.source)
    return is_open and replica.world > 1 and replica.rank > 0


class InputsAway(Exception):
    """They are being fetched: the next round looks again."""


class ReplicaInputs:
    """Thread-safe. `wake` is called when a fetch has ended.

    `start_thread` runs a fetch beside the caller."""

    def __init__(
        self,
        calls: FileCalls,
        wake: Callable[[], None],
        start_thread: Callable[[Callable[[], None]], None],
        fetch_git: FetchGit = refuse_git,
    ) -> None:
        self._calls = calls
        self._fetch_git = fetch_git
        self._wake = wake
        self._start_thread = start_thread
        self._fetched: dict[str, RuntimeFailure | None] = {}
        self._fetching: set[str] = set()
        # Those that have come as far as to need the commit of rank 0.
        self._early: set[str] = set()
        self._lock = threading.Lock()

    def deliver(self, replica: DesiredReplica, make_folders: Callable[[], ReplicaFolders]) -> None:
        """Have its files ready. Raises InputsAway, and RuntimeFailure if they cannot be had."""
        if not (has_code(replica) or replica.has_checkpoint):
            return
        folders = make_folders()
        if has_fetched(folders):
            return
        with self._lock:
            if needs_commit(replica):
                self._early.add(replica.id)
                raise InputsAway(f"the code of {replica.id} is that of rank 0, which has none yet")
            if failure := self._fetched.pop(replica.id, None):
                raise failure
            is_new = replica.id not in self._fetching
            self._fetching.add(replica.id)
        if is_new:
            self._start_thread(lambda: self._fetch(replica, folders))
        if not has_fetched(folders):
            raise InputsAway(f"files of {replica.id} are being fetched")

    def fetching(self, replicas: Iterable[DesiredReplica]) -> frozenset[str]:
        """Those whose files are under way: asking again is of no use before `wake`. And those of
        `replicas`, as they are desired now, that wait for the commit of rank 0."""
        with self._lock:
            early = {one.id for one in replicas if one.id in self._early and needs_commit(one)}
            return frozenset(self._fetching | early)

    def keep(self, replicas: Collection[str]) -> None:
        """Forget all others."""
        known = set(replicas)
        with self._lock:
            for gone in self._fetched.keys() - known:
                del self._fetched[gone]
            self._early &= known

    def _fetch(self, replica: DesiredReplica, folders: ReplicaFolders) -> None:
        failure: RuntimeFailure | None = None
        try:
            self._fetch_all(replica, folders)
            note_fetched(folders)
        except PortalAway as away:
            log.info("portal_away", extra={"replica": replica.id, "why": str(away)})
        except RuntimeFailure as refused:
            failure = refused
        except (TreeAbsent, FilesRefused, ContractError) as refused:
            failure = RuntimeFailure("files_absent", f"its files cannot be fetched: {refused}")
        except OSError as error:
            sentence = f"its files cannot be written: {error.strerror or error}"
            failure = RuntimeFailure("files_unwritten", sentence)
        finally:
            with self._lock:
                self._fetching.discard(replica.id)
                if failure is not None:
                    self._fetched[replica.id] = failure
            self._wake()

    def _fetch_all(self, replica: DesiredReplica, folders: ReplicaFolders) -> None:
        if replica.code_tree:
            empty_folder(folders.code)
            fetch_tree(self._calls, replica.id, replica.code_tree, folders.code)
        elif replica.code_git:
            note_commit(folders, self._fetch_git(replica, folders))
        if replica.has_checkpoint:
            empty_folder(folders.checkpoint)
            # The job goes on writing them. Only root can give files away.
            owner = folders.checkpoint.stat().st_uid if os.geteuid() == 0 else None
            try:
                fetch_tree(self._calls, replica.id, TreeKind.CHECKPOINT, folders.checkpoint, owner)
            except TreeAbsent:
                log.info("no_checkpoint", extra={"replica": replica.id})
