"""What a replica starts with: its code, and the newest checkpoint of its job. Fetched before it is
prepared, beside everything else that the node does."""

import logging
import os
import threading
from collections.abc import Callable, Collection

from agents.contract.documents import DesiredReplica
from agents.contract.errors import ContractError
from agents.contract.file_transfer import TreeKind
from agents.files.fetched import has_fetched, note_fetched
from agents.files.fetching import TreeAbsent, fetch_tree
from agents.files.file_calls import FileCalls, FilesRefused, PortalAway
from agents.files.tree_writing import empty_folder
from agents.runtime.base import RuntimeFailure
from agents.workspace.folders import ReplicaFolders

log = logging.getLogger("agents.files.inputs")


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
    ) -> None:
        self._calls = calls
        self._wake = wake
        self._start_thread = start_thread
        self._fetched: dict[str, RuntimeFailure | None] = {}
        self._fetching: set[str] = set()
        self._lock = threading.Lock()

    def deliver(self, replica: DesiredReplica, make_folders: Callable[[], ReplicaFolders]) -> None:
        """Have its files ready. Raises InputsAway, and RuntimeFailure if they cannot be had."""
        if not (replica.code_tree or replica.has_checkpoint):
            return
        folders = make_folders()
        if has_fetched(folders):
            return
        with self._lock:
            if failure := self._fetched.pop(replica.id, None):
                raise failure
            is_new = replica.id not in self._fetching
            self._fetching.add(replica.id)
        if is_new:
            self._start_thread(lambda: self._fetch(replica, folders))
        if not has_fetched(folders):
            raise InputsAway(f"files of {replica.id} are being fetched")

    def fetching(self) -> frozenset[str]:
        """Replicas whose files are under way: asking again is of no use before `wake`."""
        with self._lock:
            return frozenset(self._fetching)

    def keep(self, replicas: Collection[str]) -> None:
        """Forget the failures of all others."""
        with self._lock:
            for gone in self._fetched.keys() - set(replicas):
                del self._fetched[gone]

    def _fetch(self, replica: DesiredReplica, folders: ReplicaFolders) -> None:
        failure: RuntimeFailure | None = None
        try:
            self._fetch_all(replica, folders)
            note_fetched(folders)
        except PortalAway as away:
            log.info("portal_away", extra={"replica": replica.id, "why": str(away)})
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
        if replica.has_checkpoint:
            empty_folder(folders.checkpoint)
            # The job goes on writing them. Only root can give files away.
            owner = folders.checkpoint.stat().st_uid if os.geteuid() == 0 else None
            try:
                fetch_tree(self._calls, replica.id, TreeKind.CHECKPOINT, folders.checkpoint, owner)
            except TreeAbsent:
                log.info("no_checkpoint", extra={"replica": replica.id})
