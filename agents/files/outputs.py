"""Sends what replicas leave behind: outputs after their end, checkpoints while they run."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from agents.contract.errors import ContractError
from agents.contract.file_transfer import TreeCommitRequest, TreeKind
from agents.files.fetched import fetched_mark
from agents.files.file_calls import FileCalls, FilesRefused, PortalAway
from agents.files.outbox import Outbox, OutgoingTree
from agents.files.saved_mark import SavedMark, is_outdated, read_mark, read_step
from agents.files.sending import send_tree
from agents.files.tree_reading import FolderChanged, copy_tree, read_tree
from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.workspace.folders import ReplicaFolders

# How often the folders of running replicas are looked at, and what waits is tried again.
LOOK_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
# So long, a replica that has ended waits for its last checkpoint to be sent: it holds its devices.
LAST_LOOK_SECONDS = 3_600.0
# A job that saves again while a copy is made: so often, the copy begins again at once.
MAX_COPIES = 3
# The portal did not store what was sent: so often, it is sent again.
MAX_SENDINGS = 3

log = logging.getLogger("agents.files.outputs")


class ReplicaOutputs:
    """Two threads: one for checkpoints, which jobs that were stopped wait for, and one for outputs.

    `folders`: of a replica, on the node. `wake` is called when the last checkpoint of a replica
    that has ended is settled."""

    def __init__(
        self,
        outbox: Outbox,
        calls: FileCalls,
        folders: Callable[[str], ReplicaFolders],
        wake: Callable[[], None],
    ) -> None:
        self._outbox = outbox
        self._calls = calls
        self._folders = folders
        self._wake = wake
        self._lock = threading.Lock()
        # By replica: the newest checkpoint that the portal has, or that is given up.
        self._settled: dict[str, SavedMark] = {}
        # By replica: the one that is in the outbox.
        self._copied: dict[str, SavedMark] = {}
        self._running: frozenset[str] = frozenset()
        self._ended: frozenset[str] = frozenset()
        self._succeeded: frozenset[str] = frozenset()
        # When each was first seen to have ended.
        self._ended_at: dict[str, float] = {}
        self._settling: frozenset[str] = frozenset()
        self._news = {kind: threading.Event() for kind in (TreeKind.OUTPUT, TreeKind.CHECKPOINT)}
        self._closing = threading.Event()

    def start(self) -> None:
        for name, work in (("outputs", self._outputs), ("checkpoints", self._checkpoints)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def close(self) -> None:
        """The next agent goes on with what is not sent."""
        self._closing.set()
        for news in self._news.values():
            news.set()

    def settle(self, containers: Mapping[str, ContainerStatus]) -> dict[str, ContainerStatus]:
        """The containers of the node, where one that has ended counts as running until its last
        checkpoint is with the portal: its job may start again elsewhere at once."""
        phases: dict[ContainerPhase, set[str]] = {phase: set() for phase in ContainerPhase}
        for replica, status in containers.items():
            phases[status.phase].add(replica)
        ended = frozenset(phases[ContainerPhase.EXITED])
        now = time.monotonic()
        self._ended_at = {replica: self._ended_at.get(replica, now) for replica in ended}
        self._settling = frozenset(
            replica
            for replica, since in self._ended_at.items()
            if now - since < LAST_LOOK_SECONDS and not self._is_settled(replica)
        )
        shown = dict(containers)
        for replica in self._settling:
            shown[replica] = replace(shown[replica], phase=ContainerPhase.RUNNING)
        if ended - self._ended:
            self._news[TreeKind.CHECKPOINT].set()
        self._succeeded = frozenset(r for r in ended if containers[r].exit_code == 0)
        self._running, self._ended = frozenset(phases[ContainerPhase.RUNNING]), ended
        return shown

    @property
    def settling(self) -> frozenset[str]:
        """Those that have ended, and count as running all the same."""
        return self._settling

    def before_removal(self, replica: str) -> None:
        """Take what a replica that has ended has written for the portal."""
        folder = self._folders(replica).output
        try:
            if self._outbox.move_in(replica, TreeKind.OUTPUT, folder):
                self._news[TreeKind.OUTPUT].set()
        except OSError as error:
            log.warning("output_lost", extra={"replica": replica, "why": str(error)})

    def keep(self, replicas: Collection[str]) -> None:
        """Forget all others."""
        with self._lock:
            for known in (self._settled, self._copied):
                for gone in known.keys() - set(replicas):
                    del known[gone]

    def _is_settled(self, replica: str) -> bool:
        folders = self._folders(replica)
        mark = read_mark(folders.checkpoint)
        if mark is None:
            return True
        with self._lock:
            if replica not in self._settled and (fetched := fetched_mark(folders)):
                self._settled[replica] = fetched
            return self._settled.get(replica) == mark

    def _outputs(self) -> None:
        self._repeat(TreeKind.OUTPUT, lambda: None)

    def _checkpoints(self) -> None:
        self._repeat(TreeKind.CHECKPOINT, self._copy_checkpoints)

    def _repeat(self, kind: TreeKind, prepare: Callable[[], None]) -> None:
        pause = LOOK_SECONDS
        while not self._closing.is_set():
            self._news[kind].clear()
            try:
                prepare()
                for tree in self._outbox.waiting(kind):
                    self._send(tree)
                pause = LOOK_SECONDS
            except PortalAway as away:
                log.info("portal_away", extra={"why": str(away)})
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
            except Exception:
                log.exception("not_sent", extra={"kind": str(kind)})
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
            self._news[kind].wait(pause)

    def _copy_checkpoints(self) -> None:
        for replica in sorted(self._ended | self._running):
            if self._is_settled(replica):
                continue
            try:
                mark = self._copy(replica)
            except OSError as error:
                log.warning("not_copied", extra={"replica": replica, "why": str(error)})
                mark = self._send_uncopied(replica)
            if mark is not None:
                self._send_checkpoint(replica, mark)

    def _copy(self, replica: str) -> SavedMark | None:
        """Copy the files of a checkpoint as they were when it was saved; None while they change.
        Raises OSError."""
        folder = self._folders(replica).checkpoint
        for _ in range(MAX_COPIES):
            mark = read_mark(folder)
            if mark is None or mark == self._copied.get(replica):
                return mark
            if self._is_outdated(replica):
                return self._skip_outdated(replica, mark)
            try:
                found = copy_tree(folder, self._outbox.unfinished(replica, TreeKind.CHECKPOINT))
            except FolderChanged:
                continue
            if found.is_cut:
                # A job that started with a part of it would fail, or worse.
                log.warning("checkpoint_has_too_many_files", extra={"replica": replica})
                self._outbox.discard_copy(replica, TreeKind.CHECKPOINT)
                return mark
            if mark == read_mark(folder) and not self._is_outdated(replica):
                self._outbox.finish(replica, TreeKind.CHECKPOINT)
                with self._lock:
                    self._copied[replica] = mark
                return mark
        return None

    def _is_outdated(self, replica: str) -> bool:
        """A job that succeeded has no next checkpoint. Raises OSError."""
        return replica not in self._succeeded and is_outdated(self._folders(replica).checkpoint)

    def _skip_outdated(self, replica: str, mark: SavedMark) -> SavedMark | None:
        """A checkpoint that is partly overwritten: the next one is waited for, if there can be
        one. The portal keeps the one before."""
        self._outbox.discard_copy(replica, TreeKind.CHECKPOINT)
        if replica not in self._ended:
            return None
        log.warning("checkpoint_partly_overwritten", extra={"replica": replica})
        return mark

    def _send_uncopied(self, replica: str) -> SavedMark | None:
        """For a copy there is no room: send the files themselves, if they do not change meanwhile.
        Raises PortalAway, and OSError."""
        folder = self._folders(replica).checkpoint
        mark = read_mark(folder)
        self._outbox.discard(replica, TreeKind.CHECKPOINT)
        if mark is not None and self._is_outdated(replica):
            return self._skip_outdated(replica, mark)

        def check() -> None:
            if mark != read_mark(folder) or self._is_outdated(replica):
                raise FolderChanged(folder)

        self._transfer(OutgoingTree(replica, TreeKind.CHECKPOINT, folder), check)
        return mark

    def _send_checkpoint(self, replica: str, mark: SavedMark) -> None:
        for tree in self._outbox.waiting(TreeKind.CHECKPOINT):
            if tree.replica == replica:
                self._send(tree)
        with self._lock:
            self._settled[replica] = mark
        if replica in self._ended:
            self._wake()

    def _send(self, tree: OutgoingTree) -> None:
        """Send it and remove it; also if the portal refuses it. Raises PortalAway."""
        self._transfer(tree)
        self._outbox.remove(tree)

    def _transfer(self, tree: OutgoingTree, check: Callable[[], None] = lambda: None) -> None:
        """`check` raises FolderChanged if what was read is not of one moment. Raises PortalAway."""
        for left in reversed(range(MAX_SENDINGS)):
            try:
                found = read_tree(tree.folder)
                check()
                if tree.kind is TreeKind.CHECKPOINT and found.is_cut:
                    log.warning("checkpoint_has_too_many_files", extra={"replica": tree.replica})
                    break
                step = read_step(tree.folder) if tree.kind is TreeKind.CHECKPOINT else 0
                request = TreeCommitRequest(
                    tree.replica, tree.kind, found.files, step, found.left_out
                )
                send_tree(self._calls, tree.folder, request)
                log.info("files_sent", extra={"replica": tree.replica, "kind": str(tree.kind)})
                break
            except FilesRefused as refused:
                fields = {"replica": tree.replica, "kind": str(tree.kind), "why": str(refused)}
                log.warning("files_refused", extra=fields)
                break
            except (ContractError, FolderChanged, OSError) as error:
                fields = {"replica": tree.replica, "kind": str(tree.kind), "why": str(error)}
                log.warning("files_not_sent", extra=fields | {"tries_left": left})
