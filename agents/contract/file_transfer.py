"""Files of jobs between node and portal: contents by SHA-256, trees of paths, and their limits.

Every call names a replica of the calling node and carries the access token and the epoch. The
bytes of a chunk are the whole body of its call. Decision 18 says what belongs to whom.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.protocol import PROTOCOL

HAVE_PATH = "/agent/v1/files/have"  # POST HaveRequest
FILE_PATH = "/agent/v1/files/{sha256}"  # PUT ?replica=&size=&offset= bytes; GET ?replica=&offset=
TREES_PATH = "/agent/v1/trees"  # POST TreeCommitRequest
# GET ?replica=&after=; `tree` is `code_tree` of the desired document, or `checkpoint`: the newest
# one of the job. An answer to `checkpoint` names the tree, for the pages after the first.
TREE_PATH = "/agent/v1/trees/{tree}"

# Of a `PUT`'s body and of the answer to a `GET`; only the last chunk of a file may be shorter than
# the sender likes.
MAX_FILE_CHUNK_BYTES = 4 << 20
MAX_FILE_BYTES = 1 << 40
MAX_HAVE_FILES = 1_000
MAX_TREE_ENTRIES = 10_000
# Of a commit: its paths may use 400 bytes on average.
MAX_TREE_BODY_BYTES = 4 << 20
# Entries of one answer to `GET` a tree.
TREE_PAGE_ENTRIES = 1_000

MAX_TREE_PATH_BYTES = 1_024
# What file systems take as one name.
MAX_PATH_PART_BYTES = 255

# A job writes this file into its checkpoint folder, last, by a rename; it has `step`, if anything.
SAVED_FILE = "saved.json"
SHA256_PATTERN = r"[0-9a-f]{64}"
# The content of every empty file.
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class TreeKind(StrEnum):
    """What a tree is of a job. Nodes read code and checkpoints, and write outputs and
    checkpoints."""

    CODE = "code"
    OUTPUT = "output"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file without its name."""

    # In hexadecimal.
    sha256: str = field(metadata=rule(pattern=SHA256_PATTERN))
    size: int = field(metadata=rule(minimum=0, maximum=MAX_FILE_BYTES))


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file of a tree."""

    path: str = field(metadata=rule(max_length=MAX_TREE_PATH_BYTES))
    sha256: str = field(metadata=rule(pattern=SHA256_PATTERN))
    size: int = field(metadata=rule(minimum=0, maximum=MAX_FILE_BYTES))
    executable: bool = False


@dataclass(frozen=True, slots=True)
class HaveRequest:
    """Which of these does the portal have, for the project of this replica?"""

    replica: str = field(metadata=rule(max_length=64))
    files: tuple[FileContent, ...] = field(metadata=rule(max_length=MAX_HAVE_FILES))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class FileProgress:
    """What the portal has of a file. The next chunk starts at `received`.

    `complete` comes after the comparison of the SHA-256, so a file whose bytes have all arrived is
    not complete for a moment: ask again. An empty file needs its chunk of no bytes, too.
    """

    sha256: str
    received: int
    complete: bool


@dataclass(frozen=True, slots=True)
class HaveResponse:
    """One for each file of the request, in its order."""

    files: tuple[FileProgress, ...]


@dataclass(frozen=True, slots=True)
class TreeCommitRequest:
    """A tree of a replica, whose files the portal has. The same one again is the same tree."""

    replica: str = field(metadata=rule(max_length=64))
    kind: TreeKind
    files: tuple[TreeFile, ...] = field(metadata=rule(max_length=MAX_TREE_ENTRIES))
    # Of a checkpoint: the `step` of its `saved.json`, 0 if it names none.
    step: int = field(default=0, metadata=rule(minimum=0, maximum=2**53))
    # Links, devices, sockets, pipes and files that no tree can hold.
    left_out: int = field(default=0, metadata=rule(minimum=0, maximum=2**31 - 1))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class TreeCommitResponse:
    tree: str


@dataclass(frozen=True, slots=True)
class TreePage:
    """Files of a tree, by path, from the one after the first `after` files."""

    tree: str
    kind: TreeKind
    files: tuple[TreeFile, ...] = field(metadata=rule(max_length=TREE_PAGE_ENTRIES))
    # Of the whole tree.
    file_count: int
    total_bytes: int
    step: int = 0


def check_tree_path(path: str) -> None:
    """Raises ContractError(INVALID_FIELD) for a path that no tree may have."""
    if problem := _path_problem(path):
        raise ContractError(ContractErrorCode.INVALID_FIELD, problem, "path")


def check_tree_paths(paths: Iterable[str]) -> None:
    """The same for all paths of one tree, of which none may be twice there, or a folder of
    another."""
    found: set[str] = set()
    for path in paths:
        check_tree_path(path)
        if path in found:
            sentence = f"{_shown(path)} is there twice"
            raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "path")
        found.add(path)
    for path in found:
        for slash in re.finditer("/", path):
            if (folder := path[: slash.start()]) in found:
                sentence = f"{_shown(folder)} cannot be a file and a folder"
                raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "path")


def _path_problem(path: str) -> str:
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "a path must be UTF-8"
    if len(encoded) > MAX_TREE_PATH_BYTES:
        return f"a path has at most {MAX_TREE_PATH_BYTES} bytes"
    if b"\0" in encoded:
        return "a path has no NUL"
    parts = encoded.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):
        return f"{_shown(path)} must be relative, without empty parts, '.' and '..'"
    if any(len(part) > MAX_PATH_PART_BYTES for part in parts):
        return f"a name in a path has at most {MAX_PATH_PART_BYTES} bytes"
    return ""


def _shown(path: str) -> str:
    return ascii(path[:64])
