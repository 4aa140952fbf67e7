"""`make bench-streams`: pages while STREAMS (300) event streams are open in one web process.

Real PostgreSQL with 10,000 jobs, 1,000 nodes and 8,000 GPUs. READERS (30) people share the streams:
each follows the log of a running job, the Jobs list, the queue and the cluster; each such job
writes a line a second. What is free is published anew every 5 s, as the planning worker does.
Prints one JSON object: what pages took before, meanwhile and after, what the streams got, the
processor time that they cost, the connections that were open, and how long the process took to end
with all of them open. `over` names what is beyond its bound. STREAMS_JOBS and STREAMS_NODES are the
size.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.latency import machine
from tests.benchmarks.stream_readers import COOKIE
from tests.environment.postgres import running_postgres
from tests.environment.programs import Program, free_port

ROOT = Path(__file__).resolve().parents[2]
SEEDED = "tests.benchmarks.streams_seeded"
# Of each page, one after another; the first of them warm the process up.
ASKED, WARM_UP = 20, 3
# How long streams are watched while nobody asks for a page, with lines being written and without:
# an idle page is read again after a minute at the latest.
WATCHED_SECONDS, WATCHED_IDLE_SECONDS = 10, 60
READY_SECONDS, OPEN_SECONDS = 180, 240
# A process has a pool of 16; the programs beside it have up to three connections.
MOST_MS, MOST_CONNECTIONS, MOST_STOP_SECONDS = 150, 19, 10


def main() -> int:
    streams = int(os.environ.get("STREAMS", "300"))
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.test",
            "TESSERA_DATABASE_URL": postgres.create_database(migrated=True),
            "TESSERA_VAR": folder,
            "PYTHONPATH": str(ROOT),
            "STREAMS": str(streams),
        }
        found = Measured(environ, Path(folder)).all()
    verdict = {"streams": streams, "machine": machine(), **found, "over": over(found)}
    print(json.dumps(verdict, indent=1))
    return 0


def over(found: dict[str, Any]) -> list[str]:
    """What is beyond its bound."""
    slow = [page for page, took in found["meanwhile"].items() if took["p95_ms"] > MOST_MS]
    held = ["connections"] if found["connections"] > MOST_CONNECTIONS else []
    late = ["stop_seconds"] if found["stop_seconds"] > MOST_STOP_SECONDS else []
    return [*slow, *held, *late]


class Measured:
    """One web process and the programs around it, each ended whatever happens."""

    def __init__(self, environ: dict[str, str], folder: Path) -> None:
        self.environ, self.folder = environ, folder
        self.url = f"http://127.0.0.1:{free_port()}"

    def all(self) -> dict[str, Any]:
        seed = self.program(SEEDED, "seed")
        with seed:
            told = json.loads(seed.communicate()[0].splitlines()[-1])
        (self.folder / "streams.json").write_text(json.dumps(told["streams"]))
        with self.talking(SEEDED, "publish") as publisher:
            publisher.line(READY_SECONDS)
            return self.measured(told) | {"counts": json.loads(publisher.end())}

    def measured(self, told: dict[str, Any]) -> dict[str, Any]:
        with self.web() as web:
            found: dict[str, Any] = {"before": self.timed(told)}
            with self.talking("tests.benchmarks.stream_readers", "read", self.url) as readers:
                opened = json.loads(readers.line(OPEN_SECONDS))
                with self.talking(SEEDED, "change") as changes:
                    changes.line(60)
                    found["meanwhile"] = self.timed(told)
                    found["cpu_share_while_lines_come"] = used(web, WATCHED_SECONDS)
                    found |= json.loads(changes.end())
                found["cpu_share_while_nothing_comes"] = used(web, WATCHED_IDLE_SECONDS)
                found["memory_mib"] = memory(web)
                begun = time.monotonic()
                web.stop(signal.SIGTERM)
                found["stop_seconds"] = round(time.monotonic() - begun, 2)
                found["readers"] = opened | json.loads(readers.end())
        with self.web():
            found["after"] = self.timed(told)
        return found | {"ratio": ratio(found)}

    @contextmanager
    def web(self) -> Iterator[Program]:
        command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--no-proxy-headers"]
        command += ["--host", "127.0.0.1", "--port", self.url.rpartition(":")[2]]
        command += ["--log-level", "warning", "--timeout-graceful-shutdown", "20"]
        program = Program(command, log=self.folder / "web.log", environ=self.environ)
        try:
            program.wait_ready(self.answers, seconds=READY_SECONDS)
            yield program
        finally:
            program.kill()

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def timed(self, told: dict[str, Any]) -> dict[str, Any]:
        """What each page took, asked in turn so that a busy moment meets all."""
        took: dict[str, list[float]] = {path: [] for path in told["pages"]}
        with httpx.Client(
            base_url=self.url, cookies={COOKIE: told["cookie"]}, trust_env=False, timeout=60
        ) as client:
            for turn in range(WARM_UP + ASKED):
                for path, times in took.items():
                    begun = time.perf_counter()
                    answer = client.get(path)
                    if turn >= WARM_UP:
                        times.append((time.perf_counter() - begun) * 1000)
                    if answer.status_code != 200:
                        raise RuntimeError(f"{path} answered {answer.status_code}")
        return {
            "/jobs/J/" if "/J-" in path else path: spread(times) for path, times in took.items()
        }

    def program(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def talking(self, *words: str) -> Iterator[Talking]:
        process = self.program(*words)
        try:
            yield Talking(process)
        finally:
            process.kill()
            process.wait()


class Talking:
    """A child that says one line when it is ready, and another one when its input has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self, seconds: float) -> str:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError(f"{self.process.args!r} said nothing in {seconds:.0f} s")
        return self.process.stdout.readline()

    def end(self) -> str:
        return self.process.communicate("", timeout=60)[0].splitlines()[-1]


def named(path: str) -> str:
    return "/jobs/J/" if "/J-" in path else path


def spread(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=20, method="inclusive")
    return {"p50_ms": round(cuts[9], 1), "p95_ms": round(cuts[18], 1)}


def ratio(found: dict[str, Any]) -> dict[str, float]:
    """How many times longer each page took beside the streams than without, before and after."""
    alone = {
        page: (took["p50_ms"] + found["after"][page]["p50_ms"]) / 2
        for page, took in found["before"].items()
    }
    return {page: round(found["meanwhile"][page]["p50_ms"] / alone[page], 2) for page in alone}


def used(web: Program, seconds: float) -> float:
    """Processor time of the web process in these seconds, as a part of one core."""
    begun = spent(web)
    time.sleep(seconds)
    return round((spent(web) - begun) / seconds, 3)


def spent(web: Program) -> float:
    fields = (proc(web) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(web: Program) -> int:
    pages = int((proc(web) / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def proc(web: Program) -> Path:
    """`setpriv` becomes what it starts: the same pid."""
    return Path("/proc") / str(web.process.pid)


if __name__ == "__main__":
    sys.exit(main())
