"""How much disk a replica uses: the blocks of its files, as far as they can be seen by walking."""

import os
from collections.abc import Iterable
from pathlib import Path

# What a file or a folder takes at least, so that a job does not use up the file system by empty
# files either.
MIN_ENTRY_BYTES = 4_096
BLOCK_BYTES = 512  # the unit of `st_blocks`, whatever the file system's own is


def used_bytes(folders: Iterable[Path], limit: int) -> int:
    """Of all the folders together; the walk ends as soon as it is more than `limit`.

    A file that is deleted but still open is not seen, nor one below a path that is too long."""
    used, left = 0, [str(folder) for folder in folders]
    while left and used <= limit:
        used += _walk_one(left.pop(), left)
    return used


def _walk_one(folder: str, left: list[str]) -> int:
    used = 0
    try:
        # Never through a link that a job put in its place meanwhile.
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                    is_folder = entry.is_dir(follow_symlinks=False)
                except OSError:
                    continue
                if is_folder:
                    left.append(f"{folder}/{entry.name}")
                # A file with several names is counted once, in parts.
                links = 1 if is_folder else max(1, found.st_nlink)
                used += max(MIN_ENTRY_BYTES, found.st_blocks * BLOCK_BYTES) // links
    finally:
        os.close(opened)
    return used
