"""`make bench-artifacts`: a file of 2 GiB from a node to the portal and back, cut on the way.

One web process with PostgreSQL and a folder as store. First `curl` sends the file to an address of
the same web process that only writes it to disk. Then a sender makes the calls of an agent, and its
connection is cut at CUTS (10) random places, within a chunk each. The portal compares the SHA-256,
the file is committed as a checkpoint, and read again in chunks. Prints one JSON object: seconds of
both, the processor's part of the web process (to and from the portal), the peak growth of web and
sender, and `over`, which names what is beyond its bound.
MIB (2048) is the size. On a busy machine, `ratio` says more about its load: a chunk has ten round
trips to PostgreSQL, and curl has none.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from agents.contract.calls import EPOCH_HEADER
from agents.contract.codec import encode
from agents.contract.file_transfer import (
    FILE_PATH,
    HAVE_PATH,
    MAX_FILE_CHUNK_BYTES,
    TREES_PATH,
    FileContent,
    HaveRequest,
    TreeCommitRequest,
    TreeFile,
    TreeKind,
)
from tests.benchmarks.latency import machine
from tests.environment.postgres import running_postgres
from tests.environment.programs import Program, free_port

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
READY_SECONDS = 180
CHECK_SECONDS = 300
MOST_GROWTH_MIB = 64
LEAST_RATIO = 0.5
NEW_NODE = """
from datetime import timedelta
from django.utils import timezone
from portal.inventory.credentials import digest_of, new_access_token
from portal.inventory.models import Node
from tests.support.replica_rows import a_replica
node = Node(name="sender", epoch=1, token_expires_at=timezone.now() + timedelta(hours=9))
token = new_access_token(node.pk)
node.token_digest = digest_of(token)
node.save()
print(token, a_replica(node).pk)
"""


def main() -> int:
    size, cuts = int(os.environ.get("MIB", "2048")) * MIB, int(os.environ.get("CUTS", "10"))
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.test",
            "TESSERA_DATABASE_URL": postgres.create_database(migrated=True),
            "TESSERA_VAR": folder,
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", NEW_NODE]
        shell = subprocess.check_output(command, cwd=ROOT, env=environ, text=True)
        token, replica = shell.split()[-2:]
        file = Path(folder) / "file"
        sha256 = _write(file, size)
        with _web(environ, Path(folder)) as (url, pid):
            plain = [_curl(url, file)]
            web, cpu = PeakMemory(pid), [_cpu_seconds(pid)]
            words = [url, token, replica, str(file), sha256, str(cuts)]
            command = [sys.executable, "-m", "tests.benchmarks.artifacts", "send", *words]
            sent = json.loads(subprocess.check_output(command, cwd=ROOT, env=environ, text=True))
            sent["web_growth_mib"] = web.growth_mib()
            cpu.append(_cpu_seconds(pid))
            plain.append(_curl(url, file))
            cpu.append(_cpu_seconds(pid))
            sent["web_cpu_seconds"] = round(cpu[1] - cpu[0], 2)
            sent["web_cpu_seconds_plain"] = round(cpu[2] - cpu[1], 2)
    found = {"size_mib": size // MIB, "cuts": cuts, "plain_seconds": plain, **sent}
    found["ratio"] = round(min(plain) / sent["send_seconds"], 2)
    print(json.dumps({"machine": machine(), **found, "over": over(found)}))
    return 0


def over(found: dict[str, Any]) -> list[str]:
    """What is beyond its bound."""
    growths = [
        name for name in ("web_growth_mib", "sender_growth_mib") if found[name] > MOST_GROWTH_MIB
    ]
    slow = ["ratio"] if found["ratio"] < LEAST_RATIO else []
    return growths + slow + ([] if found["is_equal"] else ["is_equal"])


class PeakMemory:
    """How much a process grew at most since this was made."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        # Makes the peak the present size.
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = self._kib("VmRSS")

    def growth_mib(self) -> float:
        return round((self._kib("VmHWM") - self._before) / 1024, 1)

    def _kib(self, name: str) -> int:
        lines = self._status.read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def send(*words: str) -> None:
    """The sender, a process of its own. Prints what it found."""
    url, token, replica, file, sha256, cuts = words
    sender = Sender(url, token, replica, Path(file), sha256)
    memory, begun = PeakMemory(os.getpid()), time.monotonic()
    sender.send(int(cuts))
    seconds = time.monotonic() - begun
    sender.commit()
    begun = time.monotonic()
    is_equal = sender.fetch() == sha256
    print(
        json.dumps(
            {
                "send_seconds": round(seconds, 2),
                "send_mib_s": round(sender.content.size / MIB / seconds, 1),
                "check_seconds": round(sender.check_seconds, 2),
                "fetch_seconds": round(time.monotonic() - begun, 2),
                "is_equal": is_equal,
                "sender_growth_mib": memory.growth_mib(),
            }
        )
    )


class Sender:
    def __init__(self, url: str, token: str, replica: str, file: Path, sha256: str) -> None:
        self.replica, self.file = replica, file
        self.content = FileContent(sha256, file.stat().st_size)
        self.check_seconds = 0.0
        self._host = url.removeprefix("http://")
        self._headers = {"Authorization": f"Agent {token}", EPOCH_HEADER: "1"}
        self._path = FILE_PATH.format(sha256=sha256)
        self._http = HTTPConnection(self._host, timeout=CHECK_SECONDS)

    def send(self, cuts: int) -> None:
        places = sorted(random.Random(17).sample(range(self.content.size), cuts))
        received, begun = self._received(), time.monotonic()
        with self.file.open("rb") as file:
            while received < self.content.size:
                file.seek(received)
                data = file.read(MAX_FILE_CHUNK_BYTES)
                begun = time.monotonic()
                if places and places[0] < received + len(data):
                    self._cut(received, data, places.pop(0) - received)
                    received = self._received()
                else:
                    received = self._put(received, data)["received"]
        self.check_seconds = time.monotonic() - begun
        while not self._have()["complete"]:
            time.sleep(0.5)

    def commit(self) -> None:
        files = (TreeFile("file", self.content.sha256, self.content.size),)
        request = TreeCommitRequest(self.replica, TreeKind.CHECKPOINT, files, step=1)
        self._call("POST", TREES_PATH, json.dumps(encode(request)).encode())

    def fetch(self) -> str:
        digest, offset = hashlib.sha256(), 0
        while offset < self.content.size:
            query = urlencode({"replica": self.replica, "offset": offset})
            data = self._call("GET", f"{self._path}?{query}")
            digest.update(data)
            offset += len(data)
        return digest.hexdigest()

    def _put(self, offset: int, data: bytes) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call("PUT", self._address(offset), data))
        return found

    def _cut(self, offset: int, data: bytes, size: int) -> None:
        """Send a part of the chunk, and hang up."""
        connection = HTTPConnection(self._host, timeout=60)
        connection.putrequest("PUT", self._address(offset))
        for name, value in {**self._headers, "Content-Length": str(len(data))}.items():
            connection.putheader(name, value)
        connection.endheaders(data[:size])
        connection.close()

    def _received(self) -> int:
        return int(self._have()["received"])

    def _have(self) -> dict[str, Any]:
        request = HaveRequest(self.replica, (self.content,))
        body = self._call("POST", HAVE_PATH, json.dumps(encode(request)).encode())
        found: dict[str, Any] = json.loads(body)["files"][0]
        return found

    def _address(self, offset: int) -> str:
        query = {"replica": self.replica, "size": self.content.size, "offset": offset}
        return f"{self._path}?{urlencode(query)}"

    def _call(self, method: str, path: str, data: bytes | None = None) -> bytes:
        while True:
            self._http.request(method, path, data, self._headers)
            answer = self._http.getresponse()
            body = answer.read()
            if answer.status == 200:
                return body
            if answer.status not in (429, 503):
                raise RuntimeError(f"{method} {path}: {answer.status} {body[:200]!r}")
            time.sleep(float(answer.headers.get("Retry-After", "1")))


def _write(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(size // MIB):
            piece = os.urandom(MIB)
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _curl(url: str, file: Path) -> float:
    begun = time.monotonic()
    command = ["curl", "-sS", "--fail", "--noproxy", "*", "-o", "/dev/null", "-T", str(file)]
    subprocess.run([*command, "-H", "Expect:", f"{url}/plain"], check=True)
    return round(time.monotonic() - begun, 2)


@contextmanager
def _web(environ: dict[str, str], folder: Path) -> Iterator[tuple[str, int]]:
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "uvicorn", "tests.benchmarks.plain_upload:application"]
    command += ["--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--no-proxy-headers"]
    command += ["--log-level", "warning", "--no-access-log"]
    program = Program(command, log=folder / "web.log", environ=environ)

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        program.wait_ready(answers, seconds=READY_SECONDS)
        yield url, program.process.pid
    finally:
        program.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        send(*sys.argv[2:])
    else:
        sys.exit(main())
