"""Files of jobs in an S3-compatible store, a real one: two web processes with folders of their own
take the chunks of one file in turn, and each serves what came through the other."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from io import BytesIO

import httpx
import pytest

from agents.contract.calls import EPOCH_HEADER
from agents.contract.codec import encode
from agents.contract.file_transfer import (
    FILE_PATH,
    MAX_FILE_CHUNK_BYTES,
    TREE_PATH,
    TREES_PATH,
    TreeCommitRequest,
    TreeKind,
)
from tests.services.stack import Stack
from tests.support.file_calls import sha256, tree_files

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture
def webs(tmp_path, postgres_server, redis_server, object_store) -> Iterator[tuple[Stack, Stack]]:
    shared = {
        "nodes": (),
        "database_url": postgres_server.create_database(migrated=True),
        "redis_url": redis_server.url(9),
        "extra_env": object_store.environ | {"TESSERA_S3_PREFIX": tmp_path.name},
    }
    first, second = (Stack(var=tmp_path / name, **shared) for name in ("one", "two"))
    try:
        first.seed("tests.services.seed_files")
        second.var.mkdir()
        second.seeded = first.seeded
        for web in (first, second):
            web.start_web()
        yield first, second
    finally:
        for web in (first, second):
            web.__exit__()
        postgres_server.drop_database(shared["database_url"])


def agent_call(web: Stack, method: str, path: str, **call) -> httpx.Response:
    """`call`: of httpx, where `params` always name the replica."""
    headers = {"Authorization": f"Agent {web.seeded['node']}", EPOCH_HEADER: "1"}
    params = {"replica": web.seeded["replica"]} | call.pop("params", {})
    return web.http.request(method, web.url + path, headers=headers, params=params, **call)


def chunk_put(web: Stack, data: bytes, offset: int) -> httpx.Response:
    end = offset + MAX_FILE_CHUNK_BYTES
    path = FILE_PATH.format(sha256=sha256(data))
    params = {"size": len(data), "offset": offset}
    return agent_call(web, "PUT", path, params=params, content=data[offset:end])


def person_call(web: Stack, path: str, **headers: str) -> httpx.Response:
    headers["Authorization"] = f"Token {web.seeded['token']}"
    return web.http.get(f"{web.url}/api/v1{path}", headers=headers)


def test_web_processes_with_folders_of_their_own_take_and_serve_each_others_files(webs):
    first, second = webs
    model = os.urandom(3 * MAX_FILE_CHUNK_BYTES + 17)
    contents = {"model.bin": model, "saved.json": b'{"step": 7}'}
    for turn, offset in enumerate(range(0, len(model), MAX_FILE_CHUNK_BYTES)):
        here, other = (first, second) if turn % 2 else (second, first)
        # As where a chunk reached the other process before this one was stored.
        early = chunk_put(other, model, offset + MAX_FILE_CHUNK_BYTES)
        if early.status_code != 400:
            assert early.json()["error"]["expected_offset"] == offset
        put = chunk_put(here, model, offset)
        assert put.status_code == 200, put.text
        # Repeated, where the answer was lost and another process is asked.
        assert chunk_put(other, model, offset).json()["received"] == put.json()["received"]
    assert put.json()["complete"]
    assert chunk_put(first, contents["saved.json"], 0).json()["complete"]
    trees = {}
    for kind, web in ((TreeKind.CHECKPOINT, first), (TreeKind.OUTPUT, second)):
        request = TreeCommitRequest(web.seeded["replica"], kind, tree_files(contents), step=7)
        trees[kind] = agent_call(web, "POST", TREES_PATH, json=encode(request)).json()["tree"]
    for web in webs:
        newest = agent_call(web, "GET", TREE_PATH.format(tree="checkpoint")).json()
        assert (newest["tree"], newest["step"]) == (trees[TreeKind.CHECKPOINT], 7)
        path = FILE_PATH.format(sha256=sha256(model))
        end = agent_call(web, "GET", path, params={"offset": 2 * MAX_FILE_CHUNK_BYTES}).content
        assert end == model[2 * MAX_FILE_CHUNK_BYTES : 3 * MAX_FILE_CHUNK_BYTES]
        listed = person_call(web, f"/jobs/{web.seeded['job']}/trees").json()["results"]
        assert {one["id"] for one in listed} == set(trees.values())
        content = f"/trees/{trees[TreeKind.OUTPUT]}/content?path=model.bin"
        assert person_call(web, content).content == model
        part = person_call(web, content, Range="bytes=4194300-4194310")
        assert (part.status_code, part.content) == (206, model[4194300:4194311])
        archive = person_call(web, f"/trees/{trees[TreeKind.OUTPUT]}/archive").content
        with zipfile.ZipFile(BytesIO(archive)) as unpacked:
            assert {name: unpacked.read(name) for name in unpacked.namelist()} == contents
        assert not (web.var / "files").exists()
