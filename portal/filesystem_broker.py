"""Celery's broker in a folder, for one machine without Redis: kombu's transport, made atomic.

kombu writes a message under its final name, so a worker may read half of it and fail, and moves it
through the system's temporary folder, which may be on another disk. Here a message appears by one
rename and is taken by one rename.
"""

from pathlib import Path
from queue import Empty
from time import monotonic_ns
from typing import Any
from uuid import uuid4

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps, loads


class Channel(filesystem.Channel):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for folder in (self.data_folder_in, self.data_folder_out, self.control_folder):
            Path(folder).mkdir(parents=True, exist_ok=True)

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:  # type: ignore[override]
        name = f"{monotonic_ns():020}_{uuid4()}"
        folder = Path(self.data_folder_out)
        part = folder / f"{name}.part"
        try:
            part.write_text(dumps(message), "utf-8")
            part.rename(folder / f"{name}.{queue}.msg")
        except OSError as error:
            raise ChannelError(f"a message cannot be written: {error}") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for path in sorted(Path(self.data_folder_in).glob(f"*.{queue}.msg")):
            try:
                taken = path.rename(path.with_suffix(".taken"))
            except FileNotFoundError:
                continue  # another worker took it
            payload = taken.read_text("utf-8")
            taken.unlink()
            return loads(payload)
        raise Empty


class Transport(filesystem.Transport):
    Channel = Channel
