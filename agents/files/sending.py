"""Sends a tree: what the portal lacks of its files, chunk by chunk, and then the paths.

Nothing of it is written down: after a cut, or in the next agent, the portal says how far it is.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    MAX_FILE_CHUNK_BYTES,
    MAX_HAVE_FILES,
    FileContent,
    FileProgress,
    TreeCommitRequest,
)
from agents.files.file_calls import FileCalls
from agents.files.folder_walk import open_file

# While the portal compares the SHA-256 of a large file, it is asked again.
CHECK_PAUSE_SECONDS = 2.0


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
    for start in range(0, len(contents), MAX_HAVE_FILES):
        some = contents[start : start + MAX_HAVE_FILES]
        for content, progress in _missing(calls, request.replica, some):
            descriptor = open_file(folder, by_content[content])
            try:
                _send(calls, request.replica, descriptor, content, progress, pause)
            finally:
                os.close(descriptor)
    return calls.commit(request)


def _missing(
    calls: FileCalls, replica: str, contents: Sequence[FileContent]
) -> Iterator[tuple[FileContent, FileProgress]]:
    progress = calls.have(replica, contents)
    pairs: Iterable[tuple[FileContent, FileProgress]] = zip(contents, progress, strict=True)
    return ((content, one) for content, one in pairs if not one.complete)


def _send(
    calls: FileCalls,
    replica: str,
    descriptor: int,
    content: FileContent,
    progress: FileProgress,
    pause: Callable[[float], object],
) -> None:
    while not progress.complete:
        if progress.received == content.size and content.size:
            pause(CHECK_PAUSE_SECONDS)
            (progress,) = calls.have(replica, [content])
            continue
        data = os.pread(descriptor, MAX_FILE_CHUNK_BYTES, progress.received)
        if not data and content.size:
            raise OSError(f"the file of {content.sha256} has become shorter")
        progress = _put(calls, replica, content, progress.received, data)


def _put(
    calls: FileCalls, replica: str, content: FileContent, offset: int, data: bytes
) -> FileProgress:
    try:
        return calls.put(replica, content, offset, data)
    except ContractError as refused:
        if refused.code is not ContractErrorCode.OFFSET_MISMATCH:
            raise
        expected = int((refused.extra or {}).get("expected_offset", 0))
        return FileProgress(content.sha256, expected, complete=False)
