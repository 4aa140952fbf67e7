"""Calls of an agent with files of jobs."""

import hashlib
from collections.abc import Mapping
from typing import Any

import httpx

from agents.contract.codec import encode
from agents.contract.file_transfer import (
    FILE_PATH,
    HAVE_PATH,
    TREE_PATH,
    TREES_PATH,
    FileContent,
    HaveRequest,
    TreeCommitRequest,
    TreeFile,
    TreeKind,
)
from tests.support.agent_calls import Agent


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree_files(contents: Mapping[str, bytes]) -> tuple[TreeFile, ...]:
    """By path."""
    return tuple(TreeFile(path, sha256(data), len(data)) for path, data in contents.items())


class FileSender:
    """The calls of one agent for one of its replicas."""

    def __init__(self, agent: Agent, client: httpx.AsyncClient, replica: object) -> None:
        self.agent, self.client, self.replica = agent, client, str(replica)

    async def have(self, *contents: FileContent) -> list[tuple[int, bool]]:
        answer = await self._post(HAVE_PATH, HaveRequest(self.replica, contents))
        return [(one["received"], one["complete"]) for one in answer.json()["files"]]

    async def put(
        self, data: bytes, offset: int = 0, *, name: str = "", size: int = -1
    ) -> httpx.Response:
        """`data`: the chunk; `name` and `size`: of the whole file, if that is longer."""
        path = FILE_PATH.format(sha256=name or sha256(data))
        whole = len(data) if size < 0 else size
        params = {"replica": self.replica, "size": whole, "offset": offset}
        return await self.client.put(
            path, params=params, content=data, headers=self.agent.headers, timeout=60
        )

    async def get(self, name: str, offset: int = 0) -> httpx.Response:
        params = {"replica": self.replica, "offset": offset}
        path = FILE_PATH.format(sha256=name)
        return await self.client.get(path, params=params, headers=self.agent.headers)

    async def commit(
        self, contents: Mapping[str, bytes], kind: TreeKind = TreeKind.OUTPUT, **fields: Any
    ) -> httpx.Response:
        request = TreeCommitRequest(self.replica, kind, tree_files(contents), **fields)
        return await self._post(TREES_PATH, request)

    async def save(self, contents: Mapping[str, bytes], step: int) -> str:
        """Send a checkpoint whole. Its tree."""
        for data in contents.values():
            assert (await self.put(data)).json()["complete"]
        answer = await self.commit(contents, TreeKind.CHECKPOINT, step=step)
        return str(answer.json()["tree"])

    async def tree(self, tree: str, after: int = 0) -> httpx.Response:
        params = {"replica": self.replica, "after": after}
        path = TREE_PATH.format(tree=tree)
        return await self.client.get(path, params=params, headers=self.agent.headers)

    async def _post(self, path: str, body: object) -> httpx.Response:
        return await self.client.post(path, json=encode(body), headers=self.agent.headers)


def a_sender(client, agent, replica) -> FileSender:
    """That of the files of one replica."""
    return FileSender(agent, client, replica.pk)
