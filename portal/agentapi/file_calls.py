"""Reads the calls with files from HTTP: which of them it is, its numbers and its body."""

import re
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from agents.contract.calls import EPOCH_HEADER
from agents.contract.codec import decode
from agents.contract.direct_transfer import PARTS_PATH, PartsRequest
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    HAVE_PATH,
    MAX_FILE_BYTES,
    MAX_TREE_BODY_BYTES,
    SHA256_PATTERN,
    TREES_PATH,
    FileContent,
    HaveRequest,
    TreeCommitRequest,
)
from portal.agentapi.arriving_chunks import chunk_memory, room, turns
from portal.agentapi.direct_files import parts_get, parts_post
from portal.agentapi.files import (
    ArrivedChunk,
    FileCall,
    chunk_get,
    chunk_put,
    file_checked,
    files_have,
    tree_get,
    tree_put,
)
from portal.agentapi.http import (
    announced_bytes,
    read_body,
    read_body_into,
    read_json,
    read_whole_number,
)
from portal.agentapi.threads import run_in_decode_thread
from portal.asgi_scope import Receive, Scope, header

FILE = re.compile(rf"/agent/v1/files/(?P<sha256>{SHA256_PATTERN})")
PARTS = re.compile(PARTS_PATH.format(sha256=rf"(?P<sha256>{SHA256_PATTERN})"))
TREE = re.compile(r"/agent/v1/trees/(?P<tree>[0-9a-z-]{1,40})")
MAX_PARTS_BYTES = 4 << 10
# 1,000 files of at most 120 bytes.
MAX_HAVE_BYTES = 128 << 10

Serve = Callable[[Scope, Receive], Awaitable[object]]


def file_call_name(path: str) -> str:
    """The call without the file or the tree; empty for other calls."""
    if path == HAVE_PATH:
        return "files_have"
    if FILE.fullmatch(path):
        return "file"
    if PARTS.fullmatch(path):
        return "file_parts"
    return "tree" if path == TREES_PATH or TREE.fullmatch(path) else ""


def file_call(scope: Scope) -> Serve | None:
    """What serves the call of a node that is known; None for other calls."""
    method, path = scope["method"], scope["path"]
    if (method, path) == ("POST", HAVE_PATH):
        return _have
    if (method, path) == ("POST", TREES_PATH):
        return _commit
    if method in ("PUT", "GET") and FILE.fullmatch(path):
        return _put if method == "PUT" else _get
    if method in ("POST", "GET") and PARTS.fullmatch(path):
        return _send_parts if method == "POST" else _fetch_parts
    if method == "GET" and TREE.fullmatch(path):
        return _tree
    return None


async def _have(scope: Scope, receive: Receive) -> object:
    body = await read_body(scope, receive, MAX_HAVE_BYTES)
    request = await run_in_decode_thread(lambda: decode(HaveRequest, read_json(body)))
    return await files_have(_call(scope, request.replica), request)


async def _commit(scope: Scope, receive: Receive) -> object:
    with room.one():
        body = await read_body(scope, receive, MAX_TREE_BODY_BYTES)
        request = await run_in_decode_thread(lambda: decode(TreeCommitRequest, read_json(body)))
        return await tree_put(_call(scope, request.replica), request)


async def _put(scope: Scope, receive: Receive) -> object:
    content = FileContent(_sha256(scope), _number(scope, "size"))
    if content.size > MAX_FILE_BYTES:
        sentence = f"a file has at most {MAX_FILE_BYTES} bytes"
        raise ContractError(ContractErrorCode.TOO_LARGE, sentence, "size")
    offset = _number(scope, "offset")
    call, end = _call(scope), offset + announced_bytes(scope, 0)
    turn = turns.chunk((call.replica, content), offset, end)
    with room.one(), chunk_memory.one() as memory, turn as before:
        data = await read_body_into(scope, receive, memory)
        row = await chunk_put(call, ArrivedChunk(content, offset, data), before)
    return await file_checked(row)


async def _get(scope: Scope, receive: Receive) -> object:
    with room.one():
        return await chunk_get(_call(scope), _sha256(scope), _number(scope, "offset"))


async def _send_parts(scope: Scope, receive: Receive) -> object:
    # The portal reads what it counts: one part at a time.
    with room.one():
        body = await read_body(scope, receive, MAX_PARTS_BYTES)
        request = await run_in_decode_thread(lambda: decode(PartsRequest, read_json(body)))
        return await parts_post(_call(scope, request.replica), _sha256(scope), request)


async def _fetch_parts(scope: Scope, receive: Receive) -> object:
    return await parts_get(_call(scope), _sha256(scope), _number(scope, "offset"))


async def _tree(scope: Scope, receive: Receive) -> object:
    match = TREE.fullmatch(scope["path"])
    tree = match["tree"] if match else ""
    return await tree_get(_call(scope), tree, _number(scope, "after", "0"))


def _call(scope: Scope, replica: str = "") -> FileCall:
    epoch = read_whole_number(header(scope, EPOCH_HEADER), EPOCH_HEADER)
    return FileCall(header(scope, "authorization"), epoch, replica or _query(scope, "replica"))


def _sha256(scope: Scope) -> str:
    match = FILE.fullmatch(scope["path"]) or PARTS.fullmatch(scope["path"])
    return match["sha256"] if match else ""


def _number(scope: Scope, name: str, default: str = "") -> int:
    return read_whole_number(_query(scope, name) or default, name)


def _query(scope: Scope, name: str) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get(name, [""])[0]
