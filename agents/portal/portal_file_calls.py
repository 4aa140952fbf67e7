"""The calls with files, from threads beside the event loop of all calls."""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, TypeVar

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    FileContent,
    FileProgress,
    TreeCommitRequest,
    TreePage,
)
from agents.files.file_calls import FilesRefused, PortalAway
from agents.portal.client import PortalClient, PortalOlder, PortalUnreachable

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
    """`agents.files.file_calls.FileCalls`, for any thread but the event loop's own."""

    def __init__(self, client: PortalClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

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

    def _answer(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        if not self._client.epoch:
            call.close()
            raise PortalAway("the portal has not answered yet")
        try:
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        except RuntimeError as ended:
            call.close()
            raise PortalAway("the agent is ending") from ended
        try:
            return future.result(ANSWER_SECONDS)
        except PortalOlder as older:
            raise FilesRefused("the portal is older than files of jobs: update it") from older
        except PortalUnreachable as away:
            raise PortalAway(str(away)) from away
        except (NoAnswer, CancelledError) as away:
            future.cancel()
            raise PortalAway("the portal did not answer in time") from away
        except ContractError as refused:
            if refused.code in DECIDED_BY_CALLER:
                raise
            kind = FilesRefused if refused.code in FINAL else PortalAway
            raise kind(refused.sentence) from refused
