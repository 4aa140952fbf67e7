"""The roots that this node offers now, and the folders below them.

A file system of the network may hang, and a thread that asks for it hangs with it. So each look at
a root is made by a thread of its own, and the agent goes on with what it knew.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agents.admission.volume_roots import VolumeRoot
from agents.contract.volumes import DesiredVolume, OfferedRoot
from agents.runtime.base import RuntimeFailure
from agents.volumes.folders import (
    FolderRefused,
    open_folder,
    require_mounted,
    require_one_file_system,
)
from agents.volumes.sizes import VolumeSizes

# How old what is known of a root may be, and how long an answer may take.
LOOK_SECONDS = 30.0
PATIENCE_SECONDS = 10.0
ALL_READ = 0o005

Answer = TypeVar("Answer")


class VolumeRoots:
    """The roots of the policy, each with why it is not offered."""

    def __init__(self, roots: tuple[VolumeRoot, ...], sizes_file: Path | None = None) -> None:
        self._watches = {root.name: RootWatch(root) for root in roots}
        self.sizes = VolumeSizes(sizes_file)

    def offered(self) -> tuple[OfferedRoot, ...]:
        """Those that answer. Looks again where that is due, without waiting."""
        if not self._watches:
            return ()
        self.sizes.measure_when_due()
        found = [(watch, watch.current()) for watch in self._watches.values()]
        return tuple(
            OfferedRoot(
                name=watch.root.name,
                read_only=watch.root.read_only,
                free_mib=space[0],
                total_mib=space[1],
                sizes=self.sizes.of(watch.root.name),
            )
            for watch, space in found
            if space is not None
        )

    def problems(self) -> tuple[str, ...]:
        """Sentences about roots that are not offered now."""
        return tuple(
            f"Volumes below {name} cannot be used: {watch.problem}"
            for name, watch in self._watches.items()
            if watch.problem
        )

    def folder(self, volume: DesiredVolume) -> str:
        """The path of its folder on this node. Raises RuntimeFailure."""
        watch = self._watches.get(volume.root)
        if watch is None:
            raise _failure(volume, f"this node's policy offers no root {volume.root}")
        try:
            path = watch.folder(volume.subpath, read_only=volume.read_only)
        except FolderRefused as refused:
            raise _failure(volume, str(refused)) from refused
        self.sizes.use(watch.root.name, watch.root.path, volume.subpath)
        return path


class RootWatch:
    """What is known of one root. `for_all_users`: users of no group of it must be able to read it,
    as projects have users of their own."""

    def __init__(self, root: VolumeRoot, *, for_all_users: bool = False) -> None:
        self.root = root
        self.problem = ""
        self._for_all_users = for_all_users
        self._space: tuple[int, int] | None = None
        self._asked_at = -LOOK_SECONDS
        self._thread: threading.Thread | None = None
        self._look()
        if self._thread is not None:
            self._thread.join(PATIENCE_SECONDS)

    @property
    def is_hanging(self) -> bool:
        is_asking = self._thread is not None and self._thread.is_alive()
        return is_asking and time.monotonic() > self._asked_at + PATIENCE_SECONDS

    def current(self) -> tuple[int, int] | None:
        """Free and whole space in MiB; None while it cannot be used."""
        if self.is_hanging:
            self.problem = f"{self.root.path} does not answer"
            return None
        if time.monotonic() > self._asked_at + LOOK_SECONDS:
            self._look()
        return self._space

    def folder(self, subpath: str = "", *, read_only: bool) -> str:
        """The path of a folder below it, opened now. Raises FolderRefused."""
        if self.is_hanging:
            raise FolderRefused(f"{self.root.path} does not answer")
        return answer_of(lambda: self._folder(subpath, read_only=read_only))

    def _folder(self, subpath: str, *, read_only: bool) -> str:
        opened, path = self._open(subpath)
        os.close(opened)
        if read_only:
            require_one_file_system(path)
        return path

    def _open(self, subpath: str = "") -> tuple[int, str]:
        if self.root.mounted:
            require_mounted(self.root.path)
        opened, path = open_folder(self.root.path, subpath)
        if self._for_all_users and os.fstat(opened).st_mode & ALL_READ != ALL_READ:
            os.close(opened)
            raise FolderRefused(f"jobs cannot read {path}: chmod o+rx {path}")
        return opened, path

    def _look(self) -> None:
        self._asked_at = time.monotonic()
        self._thread = threading.Thread(target=self._ask, name="volume root", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._space, self.problem = self._read_space(), ""
        except FolderRefused as refused:
            self._space, self.problem = None, str(refused)

    def _read_space(self) -> tuple[int, int]:
        """In steps of a hundredth, so that a report does not change with every file."""
        opened, _ = self._open()
        try:
            found = os.fstatvfs(opened)
        except OSError as error:
            raise FolderRefused(f"{self.root.path} does not answer: {error.strerror}") from error
        finally:
            os.close(opened)
        total = found.f_blocks * found.f_frsize >> 20
        step = max(1, total // 100)
        return (found.f_bavail * found.f_frsize >> 20) // step * step, total


def answer_of(ask: Callable[[], Answer], seconds: float = PATIENCE_SECONDS) -> Answer:
    """What `ask` returns, in a thread that may be left behind. Raises FolderRefused."""
    answers: list[Answer | FolderRefused] = []

    def work() -> None:
        try:
            answers.append(ask())
        except FolderRefused as refused:
            answers.append(refused)
        except OSError as error:
            answers.append(FolderRefused(str(error)))

    thread = threading.Thread(target=work, name="volume folder", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        raise FolderRefused("its file system does not answer")
    if isinstance(answers[0], FolderRefused):
        raise answers[0]
    return answers[0]


def _failure(volume: DesiredVolume, why: str) -> RuntimeFailure:
    return RuntimeFailure("volume", f"volume {volume.name}: {why}")
