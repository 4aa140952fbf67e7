"""`make bench-streams`: pages while STREAMS (300) event streams are open in one web process.

One job writes a line a second; every stream follows it from a second process, as 300 open pages
would. Prints one JSON object: what pages took before, meanwhile and after, what the streams got,
and how many connections to the database the web process held while they were only waiting.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tests.services.stack import ROOT, Stack

COOKIE = "sessionid"
PAGES = ("/", "/jobs/", "/cluster/")
# Of each page, one after another.
ASKED = 20
WRITES = "n=0; while true; do n=$((n+1)); echo line $n; sleep 1; done"


def main() -> int:
    streams = int(os.environ.get("STREAMS", "300"))
    with (
        tempfile.TemporaryDirectory(prefix="tessera-streams-") as folder,
        Stack(var=Path(folder) / "var", nodes=("node-a",)) as stack,
    ):
        result = measure(stack, streams)
    print(json.dumps({"streams": streams, "machine": machine()} | result))
    return 0


def measure(stack: Stack, streams: int) -> dict[str, Any]:
    job = stack.submit(["sh", "-c", WRITES])
    stack.until_status(job, "running", seconds=240)
    cookie = stack.manage_program("tests.benchmarks.streams", "session")
    pages = (*PAGES, f"/jobs/{job}/")
    with httpx.Client(base_url=stack.url, cookies={COOKIE: cookie}, trust_env=False) as client:
        result: dict[str, Any] = {"before": timed(client, pages)}
        command = [sys.executable, "-m", "tests.benchmarks.streams", "readers"]
        command += [str(stack.port), cookie, f"/jobs/{job}/stream", str(streams)]
        readers = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert readers.stdin
        assert readers.stdout
        try:
            opened = json.loads(readers.stdout.readline())
            result["meanwhile"] = timed(client, pages)
            stack.call("POST", f"/jobs/{job}/cancel")
            # Nothing rings any more for the seconds in which logs may still come in.
            stack.until_status(job, "cancelled", seconds=240)
            result["web"] = of_process(stack)
            told, _ = readers.communicate("\n", timeout=60)
            result["readers"] = opened | json.loads(told.splitlines()[-1])
        finally:
            readers.kill()
            readers.wait()
        result["after"] = timed(client, pages)
    return result


def timed(client: httpx.Client, pages: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in pages:
        took = []
        for _ in range(ASKED):
            begun = time.perf_counter()
            answer = client.get(path)
            took.append((time.perf_counter() - begun) * 1000)
            assert answer.status_code == 200, (path, answer.status_code)
        name = "/jobs/J/" if path.startswith("/jobs/J-") else path
        cuts = statistics.quantiles(took, n=20)
        found[name] = {"p50_ms": round(cuts[9], 1), "p95_ms": round(cuts[18], 1)}
    return found


def of_process(stack: Stack) -> dict[str, int]:
    """Memory of the web process, and its descriptors of the database's file."""
    process = Path("/proc") / str(stack.running["web"].pid)
    pages = int((process / "statm").read_text().split()[1])
    return {
        "memory_mib": pages * os.sysconf("SC_PAGE_SIZE") >> 20,
        "database_files": database_files(process),
    }


def database_files(process: Path) -> int:
    held = 0
    for descriptor in (process / "fd").iterdir():
        try:
            held += str(descriptor.readlink()).endswith("tessera.sqlite3")
        except OSError:
            continue
    return held


async def readers(port: int, cookie: str, path: str, count: int) -> None:
    """Open `count` streams, say when each has had its first event, and count until told to end."""
    events, lines = [0] * count, [0] * count
    first = asyncio.Event()

    async def read(place: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {COOKIE}={cookie}\r\n\r\n"
        writer.write(head.encode())
        while data := await reader.read(1 << 16):
            events[place] += data.count(b"event: ")
            lines[place] += data.count(b"<li")
            if all(events):
                first.set()
        writer.close()

    begun = time.perf_counter()
    tasks = [asyncio.create_task(read(place)) for place in range(count)]
    await asyncio.wait_for(first.wait(), 120)
    opened = round(time.perf_counter() - begun, 2)
    print(json.dumps({"open_with_first_event_seconds": opened}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    said = {"fewest_events": min(events), "fewest_lines": min(lines), "most_lines": max(lines)}
    print(json.dumps(said), flush=True)


def session() -> None:
    """A session of alice, as a signed-in browser has one."""
    import django  # noqa: PLC0415 - the settings are named by whoever starts this

    django.setup()
    from django.conf import settings  # noqa: PLC0415 - after setup
    from django.contrib.auth import (  # noqa: PLC0415 - after setup
        BACKEND_SESSION_KEY,
        HASH_SESSION_KEY,
        SESSION_KEY,
        get_user_model,
    )
    from django.contrib.sessions.backends.db import SessionStore  # noqa: PLC0415 - after setup

    alice = get_user_model().objects.get(username="alice")
    store = SessionStore()
    store[SESSION_KEY] = str(alice.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = alice.get_session_auth_hash()
    store.save()
    print(store.session_key)


def machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["session"]:
            session()
        case ["readers", port, cookie, path, count]:
            asyncio.run(readers(int(port), cookie, path, int(count)))
        case _:
            sys.exit(main())
