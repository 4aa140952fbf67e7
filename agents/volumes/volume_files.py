"""Small files of this node's volumes, which the portal reads through the node's tunnel."""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from agents.contract.tunnel import StreamRefusal
from agents.contract.volume_files import VolumeFileTarget, volume_file_problem
from agents.contract.volumes import subpath_problem
from agents.tunnel.link import IncomingStream, OpenRefused
from agents.tunnel.opening import open_or_refuse
from agents.volumes.file_reading import FileRefused, read_volume_file
from agents.volumes.folders import FolderRefused
from agents.volumes.roots import VolumeRoots

# Shorter than the portal waits.
READ_SECONDS = 5.0
# Files that are read at once, and of one root: a file system that hangs keeps these threads.
READ_THREADS, MAX_OF_ROOT = 4, 2

log = logging.getLogger("agents.volumes.volume_files")


class VolumeFiles:
    """Used on one event loop. Reads what the policy offers, and never writes."""

    def __init__(self, roots: VolumeRoots, user_of: Callable[[str], int] | None = None) -> None:
        """`user_of`: by project, the uid that its jobs read volumes as; None where they are plain
        processes, which are the agent's own user."""
        self._roots = roots
        self._user_of = user_of
        self._slots: dict[str, threading.BoundedSemaphore] = defaultdict(
            lambda: threading.BoundedSemaphore(MAX_OF_ROOT)
        )
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="volume files")

    async def serve(self, incoming: IncomingStream, target: VolumeFileTarget) -> None:
        """Send the whole file, or refuse. Raises OSError if the stream is cut."""
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._threads, self.read, target)
        content = await open_or_refuse(incoming, reading, log, "volume_file_failed")
        if content is None:
            return
        incoming.accept()
        await incoming.write(content)
        await incoming.end()
        # The portal has no more to say; what it has not read yet would be lost by an earlier end.
        while await incoming.read():
            pass

    def read(self, target: VolumeFileTarget) -> bytes:
        """Raises OpenRefused."""
        watch = self._roots.folder_watch(target.root)
        if watch is None:
            raise OpenRefused(StreamRefusal.VOLUME_AWAY)
        if subpath_problem(target.subpath) or volume_file_problem(target.volume_file):
            raise OpenRefused(StreamRefusal.FAILED)
        slots = self._slots[target.root]
        user = self._user_of(target.project) if self._user_of else None

        def work(folder: int) -> bytes:
            return read_volume_file(folder, target.volume_file, user)

        try:
            return watch.ask(target.subpath, work, READ_SECONDS, slots)
        except FileRefused as refused:
            raise OpenRefused(refused.why) from refused
        except FolderRefused as refused:
            log.info("volume_file_refused", extra={"root": target.root, "why": str(refused)})
            raise OpenRefused(StreamRefusal.VOLUME_AWAY) from refused
