"""Contents between this node and the store itself, part by part, as long as that works. What is
left then goes through the portal, from where it stopped."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from agents.contract.direct_transfer import ContentPart, FetchPartsResponse, SendPartsResponse
from agents.contract.file_transfer import MAX_FILE_CHUNK_BYTES, FileContent, FileProgress
from agents.files.direct_store import DirectStore, StoreAway

SendParts = Callable[[int], SendPartsResponse]
"""What the portal has once it has counted the parts up to there, and the next parts."""
FetchParts = Callable[[int], FetchPartsResponse]
"""The parts from there on."""


def is_large(size: int) -> bool:
    """More than its first part: a smaller content takes one call through the portal as well."""
    return size > MAX_FILE_CHUNK_BYTES


def send_parts(
    store: DirectStore,
    descriptor: int,
    content: FileContent,
    progress: FileProgress,
    pool: ThreadPoolExecutor,
    next_parts: SendParts,
) -> FileProgress:
    """Send as much of the content as the store takes: what the portal has of it then. Raises what
    `next_parts` raises, and OSError."""
    end = progress.received
    while not store.is_away:
        answer = next_parts(end)
        progress = FileProgress(content.sha256, answer.received, answer.complete)
        if answer.received < end:
            store.leave("the portal does not find there what was sent")
        if answer.received < end or not answer.parts:
            break
        end, why = _put_all(store, descriptor, answer.parts, pool)
        if end <= answer.received:
            store.leave(why)
    return progress


def _put_all(
    store: DirectStore, descriptor: int, parts: Sequence[ContentPart], pool: ThreadPoolExecutor
) -> tuple[int, str]:
    """Up to where the store has all of them, and why not further. Each is read when it is sent: no
    more of them are in memory than the pool has threads."""
    ways = [pool.submit(_put, store, descriptor, part) for part in parts]
    end, why = parts[0].offset, ""
    for part, way in zip(parts, ways, strict=True):
        if why := _refusal(way):
            for later in ways:
                later.cancel()
            wait(ways)
            break
        end = part.offset + part.size
    return end, why


def _put(store: DirectStore, descriptor: int, part: ContentPart) -> None:
    data = os.pread(descriptor, part.size, part.offset)
    if len(data) < part.size:
        raise OSError("the file has become shorter")
    store.put(part, data)


def _refusal(way: "Future[None]") -> str:
    """Why the store did not take it; empty if it did. Raises OSError."""
    try:
        way.result()
    except StoreAway as away:
        return str(away)
    return ""


def fetch_parts(store: DirectStore, size: int, next_parts: FetchParts) -> Iterator[bytes]:
    """The bytes of a content from its beginning, as far as the store gives them. Raises what
    `next_parts` raises."""
    offset = 0
    while offset < size and not store.is_away:
        begun = offset
        for part in next_parts(offset).parts:
            try:
                data = store.get(part) if part.offset == offset else b""
            except StoreAway as away:
                # URLs end: those of a next answer are new ones, if any of these was of use.
                if offset == begun:
                    store.leave(str(away))
                break
            if not data:
                break
            offset += len(data)
            yield data
        if offset == begun:
            return
