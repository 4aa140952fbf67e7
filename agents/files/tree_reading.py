"""Reads a folder as a tree, and copies it, so that what is sent cannot change any more."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.contract.file_transfer import TreeFile
from agents.files.folder_walk import FolderWalk, OpenFile
from agents.files.tree_writing import FolderWriter

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FolderTree:
    """The files of a folder, by path; `left_out`: what no tree can hold."""

    files: tuple[TreeFile, ...]
    left_out: int = 0
    # Also files that it could hold were left out, as there are too many.
    is_cut: bool = False


class FolderChanged(Exception):
    """A file changed while it was read. Begin again."""


def read_tree(folder: Path) -> FolderTree:
    """Raises FolderChanged, and OSError if the folder cannot be read."""
    return _tree(FolderWalk(folder), None)


def copy_tree(folder: Path, target: Path) -> FolderTree:
    """The same, with a copy of each file below `target`, which must be empty."""
    with FolderWriter(target) as writer:
        return _tree(FolderWalk(folder), writer)


def _tree(walk: FolderWalk, writer: FolderWriter | None) -> FolderTree:
    files = tuple(_file(found, writer) for found in walk.files())
    return FolderTree(tuple(sorted(files, key=lambda one: one.path)), walk.left_out, walk.is_cut)


def _file(found: OpenFile, writer: FolderWriter | None) -> TreeFile:
    digest = hashlib.sha256()
    if writer is None:
        for piece in _pieces(found.descriptor):
            digest.update(piece)
    else:
        with writer.new_file(found.path, executable=found.executable) as copy:
            for piece in _pieces(found.descriptor):
                digest.update(piece)
                copy.write(piece)
    now = os.fstat(found.descriptor)
    if (now.st_size, now.st_mtime_ns) != (found.status.st_size, found.status.st_mtime_ns):
        raise FolderChanged(found.path)
    return TreeFile(found.path, digest.hexdigest(), now.st_size, found.executable)


def _pieces(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, PIECE_BYTES):
        yield piece
