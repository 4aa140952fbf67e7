"""The calls with files, as the threads that make them see them."""

from collections.abc import Sequence
from typing import Protocol

from agents.contract.direct_transfer import FetchPartsResponse, SendPartsResponse
from agents.contract.file_transfer import (
    FileContent,
    FileProgress,
    TreeCommitRequest,
    TreePage,
)
from agents.files.direct_store import DirectStore


class PortalAway(Exception):
    """The portal does not answer now, or is busy: try again later."""


class FilesRefused(Exception):
    """The portal will never take these files, and says why."""


class FileCalls(Protocol):
    """Each waits for its answer. Raises PortalAway, FilesRefused, and ContractError for what the
    caller can decide: OFFSET_MISMATCH, HASH_MISMATCH, TREE_UNKNOWN, FILE_UNKNOWN,
    FILE_INCOMPLETE."""

    def have(self, replica: str, files: Sequence[FileContent]) -> Sequence[FileProgress]:
        """What the portal has of these, in their order."""

    def put(self, replica: str, content: FileContent, offset: int, data: bytes) -> FileProgress:
        """Append a chunk."""

    def commit(self, request: TreeCommitRequest) -> str:
        """The tree."""

    def tree(self, replica: str, tree: str, after: int) -> TreePage:
        """A page of a tree."""

    def get(self, replica: str, sha256: str, offset: int) -> bytes:
        """A chunk; empty at the end."""

    @property
    def store(self) -> DirectStore | None:
        """None where all bytes go through the portal."""

    def parts_to_send(self, replica: str, content: FileContent, end: int) -> SendPartsResponse:
        """The store has all parts up to `end`: what counts now, and the next ones."""

    def parts_to_fetch(self, replica: str, sha256: str, offset: int) -> FetchPartsResponse:
        """Those from `offset` on."""
