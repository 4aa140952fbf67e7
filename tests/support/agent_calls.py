"""The calls of an agent, made to the portal's ASGI application in memory."""

from __future__ import annotations

import asyncio
import base64
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.utils import timezone

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    LOGS_PATH,
    SYNC_PATH,
    TELEMETRY_PATH,
    hello_bytes,
)
from agents.contract.codec import encode
from agents.contract.documents import DesiredDocument, ObservedDocument, digest
from agents.contract.job_metrics import JOB_METRICS_PATH
from agents.contract.log_batch import NewLogBytes, pack_logs
from portal.agentapi.door import door
from portal.asgi import application
from portal.inventory.credentials import digest_of
from portal.inventory.models import JoinToken, Node
from portal.live.listener import listener

_numbers = itertools.count(1)
LOG = "/agent/v1/replicas/00000000-0000-0000-0000-000000000000/log"
# Methods and paths; each of these calls has a body.
CALLS_WITH_A_TOKEN = (
    ("POST", SYNC_PATH),
    ("POST", TELEMETRY_PATH),
    ("POST", JOB_METRICS_PATH),
    ("PUT", f"{LOG}?offset=0"),
)


def run(scenario: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """Run the scenario in an event loop with one client, and close the loop's listener after it."""

    async def run_scenario() -> None:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://portal") as client:
            try:
                # A bound for what never comes: a busy machine takes its time.
                async with asyncio.timeout(500):
                    await scenario(client)
            finally:
                await listener().close()
                door.cache_clear()

    asyncio.run(run_scenario())


def from_address(address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=application, client=(address, 40_000))
    return httpx.AsyncClient(transport=transport, base_url="http://portal")


class LargeBody:
    """One MiB in parts; knows how many of them were read."""

    def __init__(self) -> None:
        self.parts = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(16):
            self.parts += 1
            yield b"[" * (64 << 10)


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of a refused call."""
    return answer.status_code, answer.json()["error"]["code"]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.005)


def a_join_token(node: Node, *, seconds: int = 3600) -> str:
    token = secrets.token_urlsafe(32)
    expires_at = timezone.now() + timedelta(seconds=seconds)
    JoinToken.objects.create(node=node, digest=digest_of(token), expires_at=expires_at)
    return token


def an_agent(**columns: Any) -> Agent:
    """An agent that has enrolled; it has not said hello yet."""
    agent = Agent()
    columns = {"name": f"gpu-{next(_numbers)}", "public_key": agent.public_key} | columns
    agent.node = Node.objects.create(**columns)
    return agent


@dataclass
class Agent:
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    node: Node = field(default_factory=Node)
    token: str = ""
    epoch: int = 0

    @property
    def public_key(self) -> str:
        return base64.b64encode(self.key.public_key().public_bytes_raw()).decode()

    @property
    def bell(self) -> str:
        return f"node:{self.node.pk}"

    def observed(self, **fields: Any) -> ObservedDocument:
        return ObservedDocument(node=str(self.node.pk), boot_id="boot-1", **fields)

    async def enrol(self, client: httpx.AsyncClient, join_token: str) -> httpx.Response:
        body = {"node": self.node.name, "join_token": join_token, "public_key": self.public_key}
        return await client.post(ENROL_PATH, json=body)

    def hello_body(self, **fields: Any) -> dict[str, Any]:
        body = {
            "node_id": str(self.node.pk),
            "boot_id": "boot-1",
            "time_ms": int(time.time() * 1000),
            "nonce": secrets.token_hex(16),
            "protocol": 1,
        } | fields
        signed = hello_bytes(**body)
        return body | {"signature": base64.b64encode(self.key.sign(signed)).decode()}

    async def hello(self, client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
        answer = await client.post(HELLO_PATH, json=self.hello_body(**fields))
        if answer.status_code == 200:
            self.token, self.epoch = answer.json()["access_token"], answer.json()["epoch"]
        return answer

    def sync_body(self, observed: ObservedDocument | None = None, **fields: Any) -> dict[str, Any]:
        seen = observed or self.observed()
        return {
            "epoch": self.epoch,
            "applied_revision": 0,
            "observed_hash": digest(seen),
            "observed": encode(seen),
            "hold_seconds": 0,
        } | fields

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Agent {self.token}", EPOCH_HEADER: str(self.epoch)}

    async def sync(self, client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
        return await client.post(SYNC_PATH, json=self.sync_body(**fields), headers=self.headers)

    async def log(
        self, client: httpx.AsyncClient, replica: object, offset: int, data: bytes
    ) -> httpx.Response:
        path = f"/agent/v1/replicas/{replica}/log"
        return await client.put(path, params={"offset": offset}, content=data, headers=self.headers)

    async def logs(
        self, client: httpx.AsyncClient, *chunks: tuple[object, int, bytes]
    ) -> httpx.Response:
        packed = pack_logs([NewLogBytes(str(replica), at, data) for replica, at, data in chunks])
        return await client.post(LOGS_PATH, content=packed, headers=self.headers)

    def desire(self, revision: int) -> None:
        """What the driver does: another document, a higher revision."""
        document = encode(DesiredDocument(node=str(self.node.pk), revision=revision))
        Node.objects.filter(pk=self.node.pk).update(revision=revision, desired=document)
