"""Fetches a tree from the portal into a folder, chunk by chunk, each file checked at its end. Where
the portal offers it, large files come from the store itself."""

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from agents.contract.direct_transfer import FetchPartsResponse
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import TreeFile, TreePage, check_tree_paths
from agents.files.direct_transfer import fetch_parts, is_large
from agents.files.file_calls import FileCalls, PortalAway
from agents.files.tree_writing import FolderWriter

# A portal that is away for a moment must not make a large file begin again.
MAX_TRIES, FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 10, 0.5, 15.0

Pause = Callable[[float], object]
Answer = TypeVar("Answer")


class TreeAbsent(Exception):
    """The portal has no such tree: it was removed, or never saved."""


def fetch_tree(
    calls: FileCalls,
    replica: str,
    tree: str,
    folder: Path,
    owner: int | None = None,
    pause: Pause = time.sleep,
) -> int:
    """Write the files of `tree` below `folder`, which must be empty, as files of `owner`. Their
    number. Raises TreeAbsent, PortalAway, ContractError and OSError."""
    files = _files(calls, replica, tree, pause)
    check_tree_paths(file.path for file in files)
    with FolderWriter(folder, owner) as writer:
        for file in files:
            _fetch(calls, replica, file, writer, pause)
    return len(files)


def _files(calls: FileCalls, replica: str, tree: str, pause: Pause) -> list[TreeFile]:
    """All pages of one tree: the name `checkpoint` may mean a newer one meanwhile."""
    page = _first_page(calls, replica, tree, pause)
    files = list(page.files)
    while page.files and len(files) < page.file_count:
        page = _patiently(partial(calls.tree, replica, page.tree, len(files)), pause)
        files += page.files
    return files


def _first_page(calls: FileCalls, replica: str, tree: str, pause: Pause) -> TreePage:
    try:
        return _patiently(partial(calls.tree, replica, tree, 0), pause)
    except ContractError as refused:
        if refused.code is ContractErrorCode.TREE_UNKNOWN:
            raise TreeAbsent(refused.sentence) from refused
        raise


def _fetch(
    calls: FileCalls, replica: str, file: TreeFile, writer: FolderWriter, pause: Pause
) -> None:
    digest, size = hashlib.sha256(), 0
    with writer.new_file(file.path, executable=file.executable) as target:
        for chunk in _chunks(calls, replica, file, pause):
            digest.update(chunk)
            size += len(chunk)
            target.write(chunk)
    if (digest.hexdigest(), size) != (file.sha256, file.size):
        sentence = f"{file.path} did not arrive as it was stored"
        raise ContractError(ContractErrorCode.HASH_MISMATCH, sentence)


def _chunks(calls: FileCalls, replica: str, file: TreeFile, pause: Pause) -> Iterator[bytes]:
    offset = 0
    if is_large(file.size) and (store := calls.store):

        def parts(start: int) -> FetchPartsResponse:
            return _patiently(partial(calls.parts_to_fetch, replica, file.sha256, start), pause)

        for data in fetch_parts(store, file.size, parts):
            offset += len(data)
            yield data
    while offset < file.size:
        chunk = _patiently(partial(calls.get, replica, file.sha256, offset), pause)
        if not chunk:
            return
        offset += len(chunk)
        yield chunk


def _patiently(call: Callable[[], Answer], pause: Pause) -> Answer:
    """Try again while the portal is away. Raises PortalAway in the end."""
    seconds = FIRST_PAUSE_SECONDS
    for _ in range(MAX_TRIES - 1):
        try:
            return call()
        except PortalAway:
            pause(seconds)
            seconds = min(2 * seconds, MAX_PAUSE_SECONDS)
    return call()
