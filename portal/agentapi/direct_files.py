"""Calls about parts of contents that a node sends to the store, and fetches there, by itself."""

from agents.contract.direct_transfer import (
    ContentPart,
    FetchPartsResponse,
    PartsRequest,
    SendPartsResponse,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import FileContent
from portal.agentapi.files import (
    FileCall,
    file_checked,
    own_replica,
    readable_content,
    run_file_call,
)
from portal.files.direct import parts_count, parts_to_fetch, parts_to_send
from portal.files.models import StoredFile


async def parts_post(call: FileCall, sha256: str, request: PartsRequest) -> SendPartsResponse:
    """Count what has arrived, and name the next parts to send."""
    content = FileContent(sha256, request.size)
    row, parts = await run_file_call(_count, call, content=content, end=request.end)
    progress = await file_checked(row)
    return SendPartsResponse(progress.received, progress.complete, parts)


async def parts_get(call: FileCall, sha256: str, offset: int) -> FetchPartsResponse:
    """The parts of a file from `offset` on, of what a job of the node may read."""
    return await run_file_call(_parts, call, sha256=sha256, offset=offset)


def _count(
    call: FileCall, content: FileContent, end: int
) -> tuple[StoredFile, tuple[ContentPart, ...]]:
    project = own_replica(call).attempt.job.project_id
    row = parts_count(project_id=project, content=content, end=end)
    return row, parts_to_send(row)


def _parts(call: FileCall, sha256: str, offset: int) -> FetchPartsResponse:
    file = readable_content(call, sha256)
    if offset > file.size:
        sentence = f"the file has only {file.size} bytes"
        raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "offset")
    return FetchPartsResponse(parts_to_fetch(file, offset))
