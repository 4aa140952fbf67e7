"""Many browsers' ends of event streams in one process, without Django: they only count."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

COOKIE = "sessionid"
OPENED_SECONDS = 200


@dataclass
class Stream:
    """What one connection got."""

    path: str
    cookie: str
    events: int = 0
    lines: int = 0
    is_over: bool = False


class Readers:
    def __init__(self, streams: list[Stream], port: int) -> None:
        self.streams, self.port = streams, port
        self.all_begun = asyncio.Event()

    async def read(self, stream: Stream) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"GET {stream.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        writer.write(f"{head}Cookie: {COOKIE}={stream.cookie}\r\n\r\n".encode())
        while data := await reader.read(1 << 16):
            stream.events += data.count(b"event: ")
            stream.lines += data.count(b"<li")
            if all(one.events for one in self.streams):
                self.all_begun.set()
        stream.is_over = True
        writer.close()

    async def follow(self) -> None:
        """Open all, say when each has had its first event, and count until told to end."""
        begun = time.perf_counter()
        tasks = [asyncio.create_task(self.read(stream)) for stream in self.streams]
        await asyncio.wait_for(self.all_begun.wait(), OPENED_SECONDS)
        opened = round(time.perf_counter() - begun, 2)
        print(json.dumps({"open_with_first_event_seconds": opened}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        print(json.dumps(stream_figures(self.streams)), flush=True)


def stream_figures(streams: list[Stream]) -> dict[str, int]:
    logs = [stream.lines for stream in streams if "/J-" in stream.path]
    return {
        "fewest_events": min(stream.events for stream in streams),
        "fewest_lines_of_a_log": min(logs),
        "most_lines_of_a_log": max(logs),
        "ended_by_the_server": sum(stream.is_over for stream in streams),
    }


def main(url: str) -> None:
    listed = json.loads((Path(os.environ["TESSERA_VAR"]) / "streams.json").read_text())
    streams = [Stream(path, cookie) for path, cookie in listed]
    asyncio.run(Readers(streams, urlsplit(url).port or 80).follow())


if __name__ == "__main__":
    main(sys.argv[2])
