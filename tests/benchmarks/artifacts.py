"""`make bench-artifacts`: a file of 2 GiB from a node to the portal and back, cut on the way.

One web process with PostgreSQL and a folder as store. First `curl` sends the file to an address of
the same web process that only writes it to disk. Then the agent's sender sends it as a checkpoint,
and its connection is cut at CUTS (10) random places, within a chunk each. The portal compares the
SHA-256, and the file is read again in chunks. Prints one JSON object: seconds of both, the
processor's part of the web process (to and from the portal), the peak growth of web and sender, and
`over`, which names what is beyond its bound. MIB (2048) is the size.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from agents.contract.calls import EPOCH_HEADER
from agents.contract.codec import decode, encode
from agents.contract.direct_transfer import FetchPartsResponse, SendPartsResponse
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    FILE_PATH,
    HAVE_PATH,
    TREES_PATH,
    FileContent,
    FileProgress,
    HaveRequest,
    HaveResponse,
    TreeCommitRequest,
    TreeFile,
    TreeKind,
    TreePage,
)
from agents.files.file_calls import PortalAway
from agents.files.sending import send_tree
from tests.benchmarks.latency import machine
from tests.benchmarks.one_web import ROOT, printed_words, running_web, web_environ
from tests.environment.postgres import running_postgres

APPLICATION = "tests.benchmarks.plain_upload:application"
MIB = 1 << 20
CHECK_SECONDS = 300
MOST_GROWTH_MIB = 64
LEAST_RATIO = 0.5
NEW_NODE = """
from tests.support.node_tokens import a_greeted_node
from tests.support.replica_rows import a_replica
node, token = a_greeted_node("sender")
print(token, a_replica(node).pk)
"""


def main() -> int:
    size, cuts = int(os.environ.get("MIB", "2048")) * MIB, int(os.environ.get("CUTS", "10"))
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as folder:
        environ = web_environ(postgres.create_database(migrated=True), folder)
        token, replica = printed_words(environ, NEW_NODE)[-2:]
        file = Path(folder) / "file"
        sha256 = _write(file, size)
        with running_web(APPLICATION, environ, "--no-access-log") as (url, pid):
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
    path = Path(file)
    content = FileContent(sha256, path.stat().st_size)
    files = (TreeFile(path.name, content.sha256, content.size),)
    request = TreeCommitRequest(replica, TreeKind.CHECKPOINT, files, step=1)
    calls = CutCalls(url, token, content.size, int(cuts))
    memory, begun = PeakMemory(os.getpid()), time.monotonic()
    while True:
        try:
            send_tree(calls, path.parent, request)
            break
        except PortalAway:
            continue
    seconds = time.monotonic() - begun
    begun = time.monotonic()
    is_equal = fetch(calls, replica, content) == sha256
    print(
        json.dumps(
            {
                "send_seconds": round(seconds, 2),
                "send_mib_s": round(content.size / MIB / seconds, 1),
                "check_seconds": round(calls.last_put_seconds, 2),
                "fetch_seconds": round(time.monotonic() - begun, 2),
                "is_equal": is_equal,
                "sender_growth_mib": memory.growth_mib(),
            }
        )
    )


def fetch(calls: CutCalls, replica: str, content: FileContent) -> str:
    digest, offset = hashlib.sha256(), 0
    while offset < content.size:
        data = calls.get(replica, content.sha256, offset)
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


class CutCalls:
    """`agents.files.file_calls.FileCalls` over one connection a thread, cut at random places."""

    # All bytes go through the portal.
    store = None

    def __init__(self, url: str, token: str, size: int, cuts: int) -> None:
        self.last_put_seconds = 0.0
        self._host = url.removeprefix("http://")
        self._headers = {"Authorization": f"Agent {token}", EPOCH_HEADER: "1"}
        self._places = sorted(random.Random(17).sample(range(size), cuts))
        self._lock = threading.Lock()
        self._own = threading.local()

    def have(self, replica: str, files: Sequence[FileContent]) -> Sequence[FileProgress]:
        body = json.dumps(encode(HaveRequest(replica, tuple(files)))).encode()
        return decode(HaveResponse, json.loads(self._call("POST", HAVE_PATH, body))).files

    def put(self, replica: str, content: FileContent, offset: int, data: bytes) -> FileProgress:
        query = urlencode({"replica": replica, "size": content.size, "offset": offset})
        path = f"{FILE_PATH.format(sha256=content.sha256)}?{query}"
        with self._lock:
            is_cut = bool(self._places) and offset <= self._places[0] < offset + len(data)
            place = self._places.pop(0) if is_cut else 0
        if is_cut:
            self._cut(path, data, place - offset)
            raise PortalAway("cut")
        begun = time.monotonic()
        answer = decode(FileProgress, json.loads(self._call("PUT", path, data)))
        self.last_put_seconds = time.monotonic() - begun
        return answer

    def commit(self, request: TreeCommitRequest) -> str:
        body = json.dumps(encode(request)).encode()
        return str(json.loads(self._call("POST", TREES_PATH, body))["tree"])

    def tree(self, replica: str, tree: str, after: int) -> TreePage:
        raise NotImplementedError

    def get(self, replica: str, sha256: str, offset: int) -> bytes:
        query = urlencode({"replica": replica, "offset": offset})
        return self._call("GET", f"{FILE_PATH.format(sha256=sha256)}?{query}")

    def parts_to_send(self, replica: str, content: FileContent, end: int) -> SendPartsResponse:
        raise NotImplementedError

    def parts_to_fetch(self, replica: str, sha256: str, offset: int) -> FetchPartsResponse:
        raise NotImplementedError

    def _cut(self, path: str, data: bytes, size: int) -> None:
        """Send a part of the chunk, and hang up."""
        connection = HTTPConnection(self._host, timeout=60)
        connection.putrequest("PUT", path)
        for name, value in {**self._headers, "Content-Length": str(len(data))}.items():
            connection.putheader(name, value)
        connection.endheaders(data[:size])
        connection.close()

    def _call(self, method: str, path: str, data: bytes | None = None) -> bytes:
        if not hasattr(self._own, "http"):
            self._own.http = HTTPConnection(self._host, timeout=CHECK_SECONDS)
        try:
            self._own.http.request(method, path, data, self._headers)
            answer = self._own.http.getresponse()
            body: bytes = answer.read()
        except (OSError, HTTPException) as error:
            # The server closes a connection that was idle for 5 s.
            self._own.http.close()
            raise PortalAway(str(error)) from error
        if answer.status == 200:
            return body
        if answer.status in (429, 503):
            time.sleep(float(answer.headers.get("Retry-After", "1")))
            raise PortalAway(f"{method} {path}: {answer.status}")
        refusal = json.loads(body)["error"]
        extra = {name: refusal[name] for name in ("expected_offset",) if name in refusal}
        raise ContractError(ContractErrorCode(refusal["code"]), refusal["sentence"], "", extra)


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


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        send(*sys.argv[2:])
    else:
        sys.exit(main())
