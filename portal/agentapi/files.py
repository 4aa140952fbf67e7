"""Files of jobs from and to nodes: contents in chunks, and trees.

A node writes outputs and checkpoints of its own replicas, and reads the code and the checkpoints of
the jobs that it runs. All of it runs in threads of its own, and only a few bodies are in memory at
once: who comes too many is told to come again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    MAX_FILE_CHUNK_BYTES,
    TREE_PAGE_ENTRIES,
    FileContent,
    FileProgress,
    HaveRequest,
    HaveResponse,
    TreeCommitRequest,
    TreeCommitResponse,
    TreeFile,
    TreeKind,
    TreePage,
)
from portal.agentapi.threads import run_in_file_thread
from portal.database.kept_queries import KeptSelect
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.models import StoredFile, Tree
from portal.files.receiving import (
    OBJECT_BYTES,
    FileChunk,
    StoredChunk,
    WrongOffset,
    chunk_append,
    chunk_count,
    chunk_store_ahead,
    file_check,
    file_progress,
    files_received,
    is_unchecked,
    unchecked_file,
)
from portal.files.selectors import (
    checkpoint_with_ranks,
    code_tree_of,
    content_for_job,
    merged_rows,
    newest_checkpoint,
    saving_jobs,
)
from portal.files.services import stored_limit_record, tree_commit
from portal.inventory.credentials import (
    CREDENTIAL_COLUMNS,
    CREDENTIALS,
    claimed_node_id,
    node_authenticate,
    require_bearer,
)
from portal.inventory.models import Node
from portal.jobs.models import Replica
from portal.jobs.preparation import fetch_record
from portal.storage.errors import StoreError
from portal.storage.ranges import range_pieces

# So long, a call waits for the comparison of a SHA-256; then its caller asks again.
CHECK_SECONDS = 20
# What a tree is called whose id the node does not know.
NEWEST_CHECKPOINT = str(TreeKind.CHECKPOINT)
# A replica with its node, by both keys: asked for each chunk.
OWN_REPLICA = KeptSelect(
    lambda replica, node: (
        Replica.objects.filter(pk=replica, node=node)
        .select_related("node", "attempt__job")
        .only(
            *(f"node__{column}" for column in CREDENTIAL_COLUMNS),
            *("node_id", "rank", "pull_moved_at", "attempt__number", "attempt__created_at"),
            *("attempt__job__project_id", "attempt__job__resumes_id"),
        )
    ),
    Replica._meta.pk,
    Node._meta.pk,
)
CODES = {
    ErrorCode.FILE_CHANGED: ContractErrorCode.HASH_MISMATCH,
    ErrorCode.FILE_INCOMPLETE: ContractErrorCode.FILE_INCOMPLETE,
    ErrorCode.STORED_LIMIT: ContractErrorCode.STORED_LIMIT,
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FileCall:
    """Who calls, and for which of its replicas."""

    authorization: str
    epoch: int
    replica: str


async def files_have(call: FileCall, request: HaveRequest) -> HaveResponse:
    """What the project of the replica has of these files."""
    files, unchecked = await run_file_call(_have, call, contents=request.files)
    if unchecked:
        await file_checked(unchecked)
        files, _ = await run_file_call(_have, call, contents=request.files)
    return HaveResponse(files)


@dataclass(frozen=True, slots=True)
class ArrivedChunk:
    """The body of a call that puts a chunk."""

    content: FileContent
    offset: int
    data: memoryview


async def chunk_put(
    call: FileCall, chunk: ArrivedChunk, before: asyncio.Event | None
) -> StoredFile:
    """Append a chunk; `file_checked` comes next. Raises ContractError with `expected_offset` where
    it does not follow.

    `before`: set when the chunk before it has been appended, or refused; None if it is not here.
    Until then its bytes go to the store, and do not count."""
    stored = await run_file_call(_store_ahead, call, arrived=chunk) if before else None
    if before:
        await before.wait()
    if stored:
        return await run_file_call(_count, call, stored=stored)
    return await run_file_call(_append, call, arrived=chunk)


async def file_checked(row: StoredFile) -> FileProgress:
    """Compare its SHA-256, if all bytes are there. That goes on if the call ends before it."""
    if not is_unchecked(row):
        return file_progress(row)
    check = asyncio.ensure_future(run_in_file_thread(file_check, row=row))
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            progress: FileProgress = await asyncio.shield(check)
    except TimeoutError:
        # Nobody waits for what it may raise.
        check.add_done_callback(lambda done: done.cancelled() or done.exception())
        return file_progress(row)
    except StoreError:
        raise
    except Refused as refused:
        raise ContractError(ContractErrorCode.HASH_MISMATCH, refused.sentence) from refused
    return progress


async def chunk_get(call: FileCall, sha256: str, offset: int) -> bytes:
    """At most 4 MiB of a file from `offset`; none at its end."""
    return await run_file_call(_read, call, sha256=sha256, offset=offset)


async def tree_put(call: FileCall, request: TreeCommitRequest) -> TreeCommitResponse:
    return await run_file_call(_commit, call, request=request)


async def tree_get(call: FileCall, tree: str, after: int) -> TreePage:
    return await run_file_call(_page, call, tree=tree, after=after)


async def run_file_call(work: Callable[..., Result], call: FileCall, **arguments: object) -> Result:
    """In a thread for files; refusals become those of the contract. Raises StoreError."""
    try:
        return await run_in_file_thread(work, call=call, **arguments)
    except StoreError:
        raise
    except WrongOffset as refused:
        extra: dict[str, int | str] = {"expected_offset": refused.expected_offset}
        code = ContractErrorCode.OFFSET_MISMATCH
        raise ContractError(code, refused.sentence, "offset", extra) from refused
    except Refused as refused:
        code = CODES.get(refused.code, ContractErrorCode.INVALID_FIELD)
        raise ContractError(code, refused.sentence, refused.field) from refused


def _have(
    call: FileCall, contents: tuple[FileContent, ...]
) -> tuple[tuple[FileProgress, ...], StoredFile | None]:
    project = own_replica(call).attempt.job.project_id
    files = files_received(project, contents)
    is_open = any(not one.complete and one.received for one in files)
    return files, unchecked_file(project, contents) if is_open else None


def _store_ahead(call: FileCall, arrived: ArrivedChunk) -> StoredChunk | None:
    return chunk_store_ahead(_file_chunk(own_replica(call), arrived))


def _count(call: FileCall, stored: StoredChunk) -> StoredFile:
    """The replica is known to be the caller's: `_store_ahead` asked, within the same call."""
    return chunk_count(stored)


def _append(call: FileCall, arrived: ArrivedChunk) -> StoredFile:
    replica = own_replica(call)
    try:
        return chunk_append(_file_chunk(replica, arrived))
    except Refused as refused:
        if refused.code is ErrorCode.STORED_LIMIT:
            stored_limit_record(attempt=replica.attempt, message=refused.message)
        raise


def _file_chunk(replica: Replica, arrived: ArrivedChunk) -> FileChunk:
    project = replica.attempt.job.project_id
    return FileChunk(project, arrived.content, arrived.offset, arrived.data)


def readable_content(call: FileCall, sha256: str) -> StoredFile:
    """A content that the job of the replica starts with; that the node fetches is noted. Raises
    ContractError(FILE_UNKNOWN)."""
    replica = own_replica(call)
    file = content_for_job(replica.attempt.job, sha256)
    if file is None:
        sentence = "no tree of this job has such a file"
        raise ContractError(ContractErrorCode.FILE_UNKNOWN, sentence)
    fetch_record(replica=replica)
    return file


def _read(call: FileCall, sha256: str, offset: int) -> bytes:
    file = readable_content(call, sha256)
    end = min(file.size, offset + MAX_FILE_CHUNK_BYTES)
    return b"".join(range_pieces(file.stream, offset, end, OBJECT_BYTES))


def _commit(call: FileCall, request: TreeCommitRequest) -> TreeCommitResponse:
    if request.kind is TreeKind.CODE:
        sentence = "nodes send outputs and checkpoints"
        raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "kind")
    tree = tree_commit(
        replica=own_replica(call),
        kind=request.kind,
        files=request.files,
        step=request.step,
        left_out=request.left_out,
    )
    return TreeCommitResponse(str(tree.pk))


def _page(call: FileCall, tree: str, after: int) -> TreePage:
    trees = _readable_trees(own_replica(call), tree)
    rows, count, size = merged_rows(trees, after, TREE_PAGE_ENTRIES)
    return TreePage(
        tree=str(trees[0].pk),
        kind=TreeKind(trees[0].kind),
        files=tuple(TreeFile(row.path, row.sha256, row.size, row.executable) for row in rows),
        file_count=count,
        total_bytes=size,
        step=trees[0].step,
    )


def _readable_trees(replica: Replica, name: str) -> list[Tree]:
    """The code of the job, or the trees of one of its checkpoints. Raises ContractError."""
    job = replica.attempt.job
    if name == NEWEST_CHECKPOINT:
        trees = newest_checkpoint(job)
    else:
        key = _uuid(name, ContractErrorCode.TREE_UNKNOWN, "no such tree")
        row = Tree.objects.with_files().filter(pk=key, project=job.project_id).first()
        is_own = row and (
            (row.kind == TreeKind.CHECKPOINT and row.job_id in saving_jobs(job))
            or (row.kind == TreeKind.CODE and row.pk == code_tree_of(job))
        )
        trees = []
        if row and is_own:
            is_whole_checkpoint = row.kind == TreeKind.CHECKPOINT and row.rank == 0
            trees = checkpoint_with_ranks(row) if is_whole_checkpoint else [row]
    if not trees:
        sentence = "this job has no such tree: its files were never saved, or were removed"
        raise ContractError(ContractErrorCode.TREE_UNKNOWN, sentence)
    return trees


def own_replica(call: FileCall) -> Replica:
    """Raises ContractError(REPLICA_UNKNOWN) for any that is not on the calling node."""
    try:
        rows = OWN_REPLICA.rows(UUID(call.replica), claimed_node_id(call.authorization))
    except ValueError:
        rows = []
    for row in rows:
        if row.node:
            require_bearer(row.node, authorization=call.authorization, epoch=call.epoch)
            return row
    node_authenticate(CREDENTIALS, authorization=call.authorization, epoch=call.epoch)
    sentence = "this node has no such replica"
    raise ContractError(ContractErrorCode.REPLICA_UNKNOWN, sentence)


def _uuid(text: str, code: ContractErrorCode, sentence: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ContractError(code, sentence) from None
