"""How much there is in the folders of volumes that jobs used here, measured in a thread for each
root: the file system of one may hang."""

import json
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from agents.contract.volumes import MAX_SIZES, VolumeSize
from agents.host.private_files import make_private_file
from agents.volumes.folders import FolderRefused, open_folder

# One folder: entries that are looked at, and seconds.
MAX_ENTRIES = 1_000_000
MAX_SECONDS = 60.0
AGAIN_SECONDS = 900.0
# A volume that no job has used here for so long is not measured again.
RECENT_SECONDS = 7 * 86_400.0
# Sizes are told in these steps, so that a report does not change with every file.
STEP_MIB = 64

log = logging.getLogger("agents.volumes.sizes")


class VolumeSizes:
    """By root and folder. They survive the agent in `file`."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._sizes: dict[tuple[str, str], VolumeSize] = _read(file)
        # By root and folder: the root's path, when a job last used it, and when it is due.
        self._used: dict[tuple[str, str], tuple[str, float, float]] = {}
        # By root, while it is measured.
        self._threads: dict[str, threading.Thread] = {}

    def of(self, root: str) -> tuple[VolumeSize, ...]:
        with self._lock:
            found = [size for (name, _), size in self._sizes.items() if name == root]
        return tuple(sorted(found, key=lambda size: size.subpath))[:MAX_SIZES]

    def use(self, root: str, path: str, subpath: str) -> None:
        """A job gets this folder now."""
        with self._lock:
            now = time.monotonic()
            due = self._used.get((root, subpath), ("", 0.0, now))[2]
            self._used[root, subpath] = (path, now, due)

    def measure_when_due(self) -> None:
        """Begin a thread for each root of which something is due and that none is at."""
        now = time.monotonic()
        due: dict[str, list[tuple[str, str]]] = defaultdict(list)
        with self._lock:
            for (root, subpath), (path, used, again) in self._used.items():
                if root not in self._threads and again <= now < used + RECENT_SECONDS:
                    due[root].append((path, subpath))
            threads = {
                root: threading.Thread(
                    target=self._measure, args=(root, folders), name="volumes", daemon=True
                )
                for root, folders in due.items()
            }
            self._threads |= threads
        for thread in threads.values():
            thread.start()

    def join(self, root: str) -> None:
        """Wait for the measuring that has begun there."""
        with self._lock:
            thread = self._threads.get(root)
        if thread is not None:
            thread.join()

    def _measure(self, root: str, folders: list[tuple[str, str]]) -> None:
        try:
            for path, subpath in folders:
                try:
                    size = measured(path, subpath)
                except (FolderRefused, OSError):
                    continue
                finally:
                    self._is_due_again(root, subpath)
                with self._lock:
                    self._sizes[root, subpath] = size
            self._write()
        except OSError as error:
            log.warning("sizes_unwritten", extra={"why": str(error)})
        finally:
            with self._lock:
                del self._threads[root]

    def _is_due_again(self, root: str, subpath: str) -> None:
        with self._lock:
            path, used, _ = self._used[root, subpath]
            self._used[root, subpath] = (path, used, time.monotonic() + AGAIN_SECONDS)

    def _write(self) -> None:
        """Raises OSError."""
        if self._file is None:
            return
        with self._lock:
            rows = [[root, asdict(size)] for (root, _), size in self._sizes.items()]
            whole = self._file.with_suffix(".new")
            make_private_file(whole)
            whole.write_text(json.dumps(rows), "utf-8")
            whole.rename(self._file)


def measured(
    root: str,
    subpath: str,
    *,
    max_entries: int = MAX_ENTRIES,
    clock: Callable[[], float] = time.time,
) -> VolumeSize:
    """The folder below this path, on its own file system. Raises FolderRefused, OSError."""
    opened, _ = open_folder(root, subpath)
    ends, entries, files, blocks = time.monotonic() + MAX_SECONDS, 0, 0, 0
    is_partial = False
    try:
        device = os.fstat(opened).st_dev
        for _, folders, names, here in os.fwalk(".", follow_symlinks=False, dir_fd=opened):
            entries += len(folders) + len(names)
            for name in names:
                try:
                    found = os.stat(name, dir_fd=here, follow_symlinks=False)
                except OSError:
                    continue
                blocks += found.st_blocks
                files += 1
            folders[:] = [name for name in folders if _is_on(device, name, here)]
            if entries > max_entries or time.monotonic() > ends:
                is_partial = True
                break
    finally:
        os.close(opened)
    mib = -(-blocks * 512 // (STEP_MIB << 20)) * STEP_MIB
    return VolumeSize(subpath, mib, files, is_partial, int(clock()))


def _is_on(device: int, name: str, inside: int) -> bool:
    try:
        return os.stat(name, dir_fd=inside, follow_symlinks=False).st_dev == device
    except OSError:
        return False


def _read(file: Path | None) -> dict[tuple[str, str], VolumeSize]:
    """A file that cannot be read is as good as none: the sizes are measured again."""
    try:
        rows = json.loads(file.read_bytes()) if file is not None else []
        return {(root, row["subpath"]): VolumeSize(**row) for root, row in rows}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
