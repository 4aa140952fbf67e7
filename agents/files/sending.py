"""Sends a tree: what the portal lacks of its files, chunk by chunk, and then the paths.

Nothing of it is written down: after a cut, or in the next agent, the portal says how far it is.
While the portal stores a chunk, the next one is on its way. Where the portal offers it, all but the
first chunk of a large file goes to the store itself.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    MAX_FILE_CHUNK_BYTES,
    MAX_HAVE_FILES,
    FileContent,
    FileProgress,
    TreeCommitRequest,
)
from agents.files.direct_transfer import is_large, send_parts
from agents.files.file_calls import FileCalls, PortalAway
from agents.files.folder_walk import open_file

# While the portal compares the SHA-256 of a large file, it is asked again.
CHECK_PAUSE_SECONDS = 2.0
MAX_CHUNKS_ON_THE_WAY = 2


def send_tree(
    calls: FileCalls,
    folder: Path,
    request: TreeCommitRequest,
    pause: Callable[[float], object] = time.sleep,
) -> str:
    """The tree. `folder` has the files of the request, and nobody changes them. Raises PortalAway,
    ContractError and OSError; to begin again is harmless."""
    by_content = {FileContent(file.sha256, file.size): file.path for file in request.files}
    contents = list(by_content)
    with ThreadPoolExecutor(MAX_CHUNKS_ON_THE_WAY, thread_name_prefix="sendfile") as pool:
        sender = ContentSender(calls, request.replica, pool, pause)
        for start in range(0, len(contents), MAX_HAVE_FILES):
            some = contents[start : start + MAX_HAVE_FILES]
            for content, progress in _missing(calls, request.replica, some):
                descriptor = open_file(folder, by_content[content])
                try:
                    sender.send(descriptor, content, progress)
                finally:
                    os.close(descriptor)
    return calls.commit(request)


def _missing(
    calls: FileCalls, replica: str, contents: Sequence[FileContent]
) -> Iterator[tuple[FileContent, FileProgress]]:
    progress = calls.have(replica, contents)
    pairs: Iterable[tuple[FileContent, FileProgress]] = zip(contents, progress, strict=True)
    return ((content, one) for content, one in pairs if not one.complete)


@dataclass(frozen=True, slots=True)
class ChunkOnTheWay:
    answer: Future[FileProgress | PortalAway | ContractError]
    end: int
    """Where the next one starts."""
    is_ahead: bool
    """It was sent before the answer to the chunk before it."""


@dataclass(frozen=True, slots=True)
class ContentSender:
    calls: FileCalls
    replica: str
    pool: ThreadPoolExecutor
    """With a thread for each chunk on the way."""
    pause: Callable[[float], object]

    def send(self, descriptor: int, content: FileContent, progress: FileProgress) -> None:
        """Send what is missing of it."""
        most = MAX_CHUNKS_ON_THE_WAY
        store = self.calls.store if is_large(content.size) else None
        while not progress.complete:
            if not content.size:
                progress = self.calls.put(self.replica, content, 0, b"")
            elif store and not store.is_away and not progress.received:
                progress = self._send_first(descriptor, content)
            elif store and progress.received < content.size:
                ask = partial(self.calls.parts_to_send, self.replica, content)
                progress = send_parts(store, descriptor, content, progress, self.pool, ask)
                # What is left goes through the portal.
                store = None
            elif progress.received == content.size:
                self.pause(CHECK_PAUSE_SECONDS)
                (progress,) = self.calls.have(self.replica, [content])
            else:
                progress = self._send_in_a_row(descriptor, content, progress, most)
                # If it stopped before the end, the portal has no room for two, or two processes.
                most = 1

    def _send_first(self, descriptor: int, content: FileContent) -> FileProgress:
        """Through the portal, which makes room for all of it."""
        match self._put(descriptor, content, 0, MAX_FILE_CHUNK_BYTES):
            case FileProgress() as taken:
                return taken
            case refusal:
                raise refusal

    def _send_in_a_row(
        self, descriptor: int, content: FileContent, progress: FileProgress, most: int
    ) -> FileProgress:
        """Send chunks to the end, or until one is not taken."""
        on_the_way: deque[ChunkOnTheWay] = deque()
        offset = progress.received
        try:
            while on_the_way or offset < content.size:
                while len(on_the_way) < most and offset < content.size:
                    size = min(MAX_FILE_CHUNK_BYTES, content.size - offset)
                    answer = self.pool.submit(self._put, descriptor, content, offset, size)
                    offset += size
                    on_the_way.append(ChunkOnTheWay(answer, offset, is_ahead=bool(on_the_way)))
                chunk = on_the_way.popleft()
                match chunk.answer.result():
                    case FileProgress() as taken:
                        progress = taken
                        if progress.received != chunk.end:
                            break
                    case PortalAway() if chunk.is_ahead:
                        break
                    case refusal:
                        raise refusal
        finally:
            wait([chunk.answer for chunk in on_the_way])
        return progress

    def _put(
        self, descriptor: int, content: FileContent, offset: int, size: int
    ) -> FileProgress | PortalAway | ContractError:
        """How far the portal is after it, or why it does not take it now."""
        data = os.pread(descriptor, size, offset)
        if len(data) < size:
            raise OSError(f"the file of {content.sha256} has become shorter")
        try:
            return self.calls.put(self.replica, content, offset, data)
        except ContractError as refused:
            if refused.code is ContractErrorCode.OFFSET_MISMATCH:
                expected = int((refused.extra or {}).get("expected_offset", 0))
                return FileProgress(content.sha256, expected, complete=False)
            return refused.with_traceback(None)
        except PortalAway as away:
            # The frames of its traceback would keep the chunk in memory.
            return away.with_traceback(None)
