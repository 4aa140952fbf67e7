"""What the agent knows of the images that it pulled: who may run them, and when they last ran.

An image that was pulled with a project's credentials is for that project alone, and for those that
the registry has granted it since: the engine gives what it has to anyone. Kept in a file, with the
ids of images, which mean the same bytes under every name. Images without a record were put there by
the node's owner, and are for everyone.
"""

import json
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agents.facts.images import WantedImage
from agents.host.private_files import make_private_file

# `used_at` is written down in these steps: most starts write nothing.
STEP_SECONDS = 3_600.0


class RecordsUnreadable(Exception):
    """Nobody knows who may run which image; the agent does not start."""


@dataclass(frozen=True, slots=True)
class ImageRecord:
    # As they were pulled.
    names: tuple[str, ...] = ()
    # None: everyone may run it.
    projects: tuple[str, ...] | None = None
    # Unix seconds of its last pull or container.
    used_at: float = 0.0


class ImageRecords:
    """By image id. Thread-safe. Without a file, as for a smoke test, they last as long as it."""

    def __init__(self, file: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()
        self._records, self._unfinished = _read(file)

    def all(self) -> dict[str, ImageRecord]:
        with self._lock:
            return dict(self._records)

    def may_run(self, image_id: str, names: Collection[str], project: str) -> bool:
        """`names`: of the image, and the one by which it is to run."""
        with self._lock:
            record = self._records.get(image_id)
            if record is None:
                return self._unfinished.isdisjoint(names)
            return record.projects is None or project in record.projects

    def begin_pull(self, image: WantedImage) -> None:
        """By credentials of its project: what has this name afterwards is not for everyone, also
        if the agent ends before `add_pull`."""
        with self._lock:
            if image.name not in self._unfinished:
                self._unfinished.add(image.name)
                self._write()

    def add_pull(self, image_id: str, image: WantedImage, *, signed_in: bool) -> None:
        """The registry has granted it to its project: by credentials of the project, or as it does
        to everyone on this node."""
        with self._lock:
            old = self._records.get(image_id)
            before = old or ImageRecord(projects=())
            is_open = before.projects is None or not signed_in
            projects = None if is_open else tuple(sorted({*(before.projects or ()), image.project}))
            names = tuple(sorted({*before.names, image.name}))
            self._records[image_id] = ImageRecord(names, projects, self._clock())
            self._unfinished.discard(image.name)
            self._write()

    def use(self, image_id: str) -> None:
        """A container is made of it now."""
        with self._lock:
            record, now = self._records.get(image_id), self._clock()
            if record is not None and now - record.used_at > STEP_SECONDS:
                self._records[image_id] = replace(record, used_at=now)
                self._write()

    def now(self) -> float:
        return self._clock()

    def forget(self, image_ids: Collection[str], *, unused_since: float) -> None:
        """They were not on the node at `unused_since`, and were not pulled again after it."""
        with self._lock:
            known = self._records.keys() & set(image_ids)
            gone = {key for key in known if self._records[key].used_at < unused_since}
            for image_id in gone:
                del self._records[image_id]
            if gone:
                self._write()

    def _write(self) -> None:
        """All of it or nothing. Holds the lock."""
        if self._file is None:
            return
        part = self._file.with_suffix(".part")
        make_private_file(part)
        images = {key: asdict(one) for key, one in self._records.items()}
        part.write_text(json.dumps({"images": images, "unfinished": sorted(self._unfinished)}))
        part.replace(self._file)


def _read(file: Path | None) -> tuple[dict[str, ImageRecord], set[str]]:
    """Raises RecordsUnreadable."""
    if file is None or not file.exists():
        return {}, set()
    try:
        found = json.loads(file.read_text())
        images = {key: _record(**fields) for key, fields in found["images"].items()}
        return images, set(found["unfinished"])
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        mend = "remove the images that jobs pulled, then this file"
        raise RecordsUnreadable(f"{file} cannot be read: {mend}") from error


def _record(names: list[str], projects: list[str] | None, used_at: float) -> ImageRecord:
    return ImageRecord(tuple(names), None if projects is None else tuple(projects), used_at)
