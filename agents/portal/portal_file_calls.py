"""The calls with files, from threads beside the event loop of all calls."""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from agents.contract.direct_transfer import FetchPartsResponse, SendPartsResponse
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    FileContent,
    FileProgress,
    TreeCommitRequest,
    TreePage,
)
from agents.files.direct_store import DirectStore
from agents.files.file_calls import FilesRefused, PortalAway
from agents.portal.client import PortalOlder, PortalUnreachable
from agents.portal.loop_calls import LoopCalls

ANSWER_SECONDS = 90.0
# What the caller decides about.
DECIDED_BY_CALLER = frozenset(
    {
        ContractErrorCode.OFFSET_MISMATCH,
        ContractErrorCode.HASH_MISMATCH,
        ContractErrorCode.TREE_UNKNOWN,
        ContractErrorCode.FILE_UNKNOWN,
        ContractErrorCode.FILE_INCOMPLETE,
    }
)
# What no later call changes.
FINAL = frozenset(
    {
        ContractErrorCode.STORED_LIMIT,
        ContractErrorCode.REPLICA_UNKNOWN,
        ContractErrorCode.TOO_LARGE,
        ContractErrorCode.INVALID_FIELD,
        ContractErrorCode.MALFORMED,
        ContractErrorCode.NODE_RETIRED,
    }
)

Answer = TypeVar("Answer")


class PortalFileCalls:
    """The calls of `agents.files.file_calls.FileCalls`."""

    def __init__(self, calls: LoopCalls, store: DirectStore) -> None:
        self._calls = calls
        self._client = calls.client
        self._store = store

    def have(self, replica: str, files: Sequence[FileContent]) -> Sequence[FileProgress]:
        return self._answer(self._client.files_have(replica, files)).files

    def put(self, replica: str, content: FileContent, offset: int, data: bytes) -> FileProgress:
        return self._answer(self._client.file_put(replica, content, offset, data))

    def commit(self, request: TreeCommitRequest) -> str:
        return self._answer(self._client.tree_commit(request)).tree

    def tree(self, replica: str, tree: str, after: int) -> TreePage:
        return self._answer(self._client.tree_page(replica, tree, after))

    def get(self, replica: str, sha256: str, offset: int) -> bytes:
        return self._answer(self._client.file_get(replica, sha256, offset))

    @property
    def store(self) -> DirectStore | None:
        return self._store if self._client.has_direct_transfer else None

    def parts_to_send(self, replica: str, content: FileContent, end: int) -> SendPartsResponse:
        call = self._client.parts_to_send(replica, content, end)
        return self._answer(call, is_offered=True)

    def parts_to_fetch(self, replica: str, sha256: str, offset: int) -> FetchPartsResponse:
        call = self._client.parts_to_fetch(replica, sha256, offset)
        return self._answer(call, is_offered=True)

    def _answer(self, call: Coroutine[Any, Any, Answer], *, is_offered: bool = False) -> Answer:
        """`is_offered`: the portal has said that it knows the call."""
        try:
            return self._calls.answer(call, ANSWER_SECONDS)
        except PortalOlder as older:
            if is_offered:
                # During an upgrade, another of its processes said so.
                raise PortalAway(str(older)) from older
            raise FilesRefused("the portal is older than files of jobs: update it") from older
        except PortalUnreachable as away:
            raise PortalAway(str(away)) from away
        except ContractError as refused:
            if refused.code in DECIDED_BY_CALLER:
                raise
            kind = FilesRefused if refused.code in FINAL else PortalAway
            raise kind(refused.sentence) from refused
