"""Chunks of files that are in this process: how many at once, where, and in which order."""

import asyncio
import mmap
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import MAX_FILE_CHUNK_BYTES

# Bodies in memory at once, in one web process: of up to 4 MiB each.
MAX_CHUNKS = 6


class ChunkRoom:
    """Room for the bodies of this process."""

    def __init__(self) -> None:
        self._inside = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Raises ContractError(UNAVAILABLE) while there is none."""
        if self._inside >= MAX_CHUNKS:
            sentence = "too many files arrive at once: try again"
            raise ContractError(ContractErrorCode.UNAVAILABLE, sentence)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1


class ChunkMemory:
    """Where bodies in the room lie. It is used again: fresh memory for each would cost a fault for
    each of its pages. It begins at a page, so that a disk can read it directly."""

    def __init__(self) -> None:
        self._free: list[memoryview] = []

    @contextmanager
    def one(self) -> Iterator[memoryview]:
        memory = self._free.pop() if self._free else memoryview(mmap.mmap(-1, MAX_FILE_CHUNK_BYTES))
        try:
            yield memory
        except asyncio.CancelledError:
            # A thread may still read it: it is left to that thread.
            raise
        except BaseException:
            self._free.append(memory)
            raise
        self._free.append(memory)


class ChunkTurns:
    """A sender may send a chunk while the one before it is stored. Each is stored in its turn; one
    whose predecessor is not here is not waited for, and then does not follow."""

    def __init__(self) -> None:
        # By file and the offset where a chunk ends: set when it is stored, or refused.
        self._settled: dict[Hashable, asyncio.Event] = {}

    @contextmanager
    def chunk(self, file: Hashable, start: int, end: int) -> Iterator[asyncio.Event | None]:
        """While it arrives and is stored. Wait for the event, if there is one, before it is stored.

        Only chunks that came earlier are waited for: no two wait for each other."""
        before = self._settled.get((file, start))
        settled = self._settled[file, end] = asyncio.Event()
        try:
            yield before
        finally:
            settled.set()
            if self._settled.get((file, end)) is settled:
                del self._settled[file, end]


room = ChunkRoom()
chunk_memory = ChunkMemory()
turns = ChunkTurns()
