"""Looks at what a root of the policy leads to, in threads that may hang.

A file system of the network may hang, and a thread that asks for it hangs with it. So each look at
a root is made by a thread of its own, and the agent goes on with what it knew.
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from agents.admission.volume_roots import VolumeRoot
from agents.volumes.folders import (
    FolderRefused,
    open_folder,
    require_mounted,
    require_one_file_system,
)

# How old what is known of a root may be, and how long an answer may take.
LOOK_SECONDS = 30.0
PATIENCE_SECONDS = 10.0
ALL_READ = 0o005

Answer = TypeVar("Answer")


class RootWatch(ABC):
    """What is known of one root. `place`: what does not answer, if it does not."""

    def __init__(self, place: str) -> None:
        self.problem = ""
        self._place = place
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
            self.problem = f"{self._place} does not answer"
            return None
        if time.monotonic() > self._asked_at + LOOK_SECONDS:
            self._look()
        return self._space

    @abstractmethod
    def _read_space(self) -> tuple[int, int]:
        """Free and whole. Raises FolderRefused."""

    def _look(self) -> None:
        self._asked_at = time.monotonic()
        self._thread = threading.Thread(target=self._ask, name="volume root", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._space, self.problem = self._read_space(), ""
        except FolderRefused as refused:
            self._space, self.problem = None, str(refused)


class FolderWatch(RootWatch):
    """A folder of the machine. `for_all_users`: users of no group of it must be able to read it, as
    projects have users of their own."""

    def __init__(self, root: VolumeRoot, *, for_all_users: bool = False) -> None:
        self.root = root
        self._for_all_users = for_all_users
        super().__init__(root.path)

    def folder(self, subpath: str = "", *, read_only: bool) -> str:
        """The path of a folder below it, opened now. Raises FolderRefused."""
        if self.is_hanging:
            raise FolderRefused(f"{self.root.path} does not answer")
        return answer_of(lambda: self._folder(subpath, read_only=read_only))

    def ask(
        self,
        subpath: str,
        work: Callable[[int], Answer],
        seconds: float,
        slots: threading.BoundedSemaphore,
    ) -> Answer:
        """What `work` finds with a descriptor of a folder below it, opened now. `slots`: of threads
        that may hang. Raises FolderRefused, also for an OSError of `work`."""
        if self.is_hanging:
            raise FolderRefused(f"{self.root.path} does not answer")

        def asked() -> Answer:
            # Given back by the thread itself: one that hangs keeps it.
            if not slots.acquire(blocking=False):
                raise FolderRefused(f"too much of {self.root.path} is read at once")
            try:
                return self._asked(subpath, work)
            finally:
                slots.release()

        return answer_of(asked, seconds)

    def _asked(self, subpath: str, work: Callable[[int], Answer]) -> Answer:
        opened, _ = self._open(subpath)
        try:
            return work(opened)
        finally:
            os.close(opened)

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
