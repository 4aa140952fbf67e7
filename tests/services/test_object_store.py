"""Logs in an S3-compatible store, a real one: web processes with folders of their own serve each
other's logs, and a store that dies loses nothing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from portal.platform import platform_from
from portal.storage.errors import ObjectMissing, StoreUnavailable
from portal.storage.objects import ObjectStore as Bucket
from portal.storage.s3 import FAILURES, s3_storage
from tests.environment.object_store import ObjectStore
from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

MIB = 1 << 20
LINE = "%08d a line of the log that is as long as a line of a log often is, more or less"
LINES = 1_200_000
WRITE = f"""
import sys
text = {LINE!r}
for start in range(0, {LINES}, 10_000):
    print(*(text % n for n in range(start, start + 10_000)), sep=chr(10))
"""
# Writes until the file of its argument is there, then says how many lines there were.
WRITE_UNTIL = """
import pathlib, sys, time
n = 0
while not pathlib.Path(sys.argv[1]).exists():
    print("line", n, flush=True)
    n += 1
    time.sleep(0.02)
print("lines:", n)
"""


@pytest.fixture
def webs(tmp_path, postgres_server, redis_server, object_store) -> Iterator[tuple[Stack, Stack]]:
    """The product, and a second web process with a folder of its own."""
    shared = {
        "database_url": postgres_server.create_database(migrated=True),
        "redis_url": redis_server.url(9),
        "extra_env": object_store.environ | {"TESSERA_S3_PREFIX": tmp_path.name},
    }
    first = Stack(var=tmp_path / "one", nodes=("node-a",), **shared)
    with first:
        second = Stack(var=tmp_path / "two", nodes=(), **shared)
        second.var.mkdir()
        second.seeded = first.seeded
        try:
            second.start_web()
            yield first, second
        finally:
            second.__exit__()
    postgres_server.drop_database(shared["database_url"])


def test_a_bucket_takes_lists_and_removes_objects_and_what_is_missing_has_a_name(
    object_store: ObjectStore, tmp_path
):
    environ = object_store.environ | {"TESSERA_S3_PREFIX": tmp_path.name}

    def bucket(name: str) -> Bucket:
        storage = s3_storage(platform_from(environ | {"TESSERA_S3_BUCKET": name}))
        return Bucket(f"s3:{name}", name, storage, FAILURES)

    store = bucket(environ["TESSERA_S3_BUCKET"])
    for name in ("logs/a/1", "logs/a/2"):
        store.put(name, b"0123456789")
    assert store.get("logs/a/1", 3, 4) == b"3456"
    assert sorted(store.names("logs/a")) == ["logs/a/1", "logs/a/2"]
    store.delete("logs/a/1")
    store.delete("logs/a/1")
    assert store.names("logs/a") == ["logs/a/2"]
    assert store.names("logs/b") == []
    with pytest.raises(ObjectMissing):
        store.get("logs/a/1", 0, 10)
    assert not store.is_failing
    # Without its bucket all is away, not one part of one log.
    with pytest.raises(StoreUnavailable, match="bucket does not exist"):
        bucket("no-such-bucket").get("logs/a/1", 0, 10)
    with pytest.raises(StoreUnavailable):
        bucket("no-such-bucket").put("logs/a/1", b"x")


def log_call(web: Stack, job: str, offset: int = 0, limit: int = MIB) -> httpx.Response:
    headers = {"Authorization": f"Token {web.seeded['token']}"}
    url = f"{web.url}/api/v1/jobs/{job}/logs"
    return web.http.get(url, headers=headers, params={"offset": offset, "limit": limit})


def log_pieces(web: Stack, job: str) -> Iterator[bytes]:
    offset = 0
    while True:
        answer = log_call(web, job, offset)
        assert answer.status_code == 200, answer.text
        if not answer.content:
            return
        yield answer.content
        offset += len(answer.content)


def log_size(web: Stack, job: str) -> int:
    answer = log_call(web, job, limit=1)
    return int(answer.headers["X-Log-Bytes"]) if answer.status_code == 200 else -1


def peak_kib(web: Stack, field: str) -> int:
    status = Path(f"/proc/{web.running['web'].pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(field)))


def test_a_log_of_100_mb_is_whole_from_both_web_processes_with_flat_memory(webs):
    first, second = webs
    wanted = hashlib.sha256()
    for start in range(0, LINES, 10_000):
        wanted.update(("\n".join(LINE % n for n in range(start, start + 10_000)) + "\n").encode())
    size = LINES * (len(LINE % 0) + 1)
    assert 95 * MIB < size < 128 * MIB
    job = first.submit([sys.executable, "-c", WRITE])
    first.until_status(job, "succeeded", seconds=700)
    until(lambda: log_size(first, job) == size, what="the whole log", every=1)
    for web in (first, second):
        pieces = log_pieces(web, job)
        got = hashlib.sha256(next(pieces))
        Path(f"/proc/{web.running['web'].pid}/clear_refs").write_text("5")  # resets VmHWM
        before = peak_kib(web, "VmRSS:")
        for piece in pieces:
            got.update(piece)
        assert got.hexdigest() == wanted.hexdigest()
        assert peak_kib(web, "VmHWM:") - before < 32 * 1024
    for web in webs:
        assert not (web.var / "logs").exists()


def test_a_store_that_dies_and_comes_back_loses_nothing_and_is_reported_meanwhile(
    webs, object_store: ObjectStore, tmp_path
):
    first, second = webs
    stop = tmp_path / "stop"
    job = first.submit([sys.executable, "-c", WRITE_UNTIL, str(stop)])
    first.until_status(job, "running")
    until(lambda: log_size(second, job) > 0, what="the first lines")
    object_store.kill()
    for web in webs:
        refused = until(
            lambda web=web: (answer := log_call(web, job)).status_code == 503 and answer,
            what="the refusal",
        )
        assert refused.json()["code"] == "store_unavailable"
        assert "does not answer" in refused.json()["detail"]
        assert refused.headers["Retry-After"]
    until(lambda: "agents keep their bytes" in first.log("web"), what="the agent's refused chunk")
    # The node goes on meanwhile: the job ends, and its end is known.
    stop.touch()
    first.until_status(job, "succeeded")
    object_store.start()

    def whole_log() -> list[str]:
        answer = log_call(second, job)
        lines = answer.text.splitlines() if answer.status_code == 200 else []
        return lines if lines and lines[-1].startswith("lines:") else []

    lines = until(whole_log, what="the whole log", every=0.5)
    number = int(lines[-1].split()[1])
    assert lines == [f"line {n}" for n in range(number)] + [f"lines: {number}"]
    assert b"".join(log_pieces(first, job)) == b"".join(log_pieces(second, job))
