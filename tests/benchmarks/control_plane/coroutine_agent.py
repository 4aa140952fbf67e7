"""An agent as coroutines: the real wire and a session like that of `agents.portal.sync`, no node.

It enrols, says hello, keeps one sync call open and opens another when its node changes, sends whole
observed documents and the logs of its replicas, and goes on after errors with the agent's pauses.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import random
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    LOGS_PATH,
    MAX_LONG_POLL_SECONDS,
    SYNC_PATH,
    EnrolRequest,
    HelloRequest,
    hello_bytes,
)
from agents.contract.codec import encode
from agents.contract.log_batch import MAX_LOG_BATCH_CHUNKS, NewLogBytes, pack_logs
from agents.contract.protocol import PROTOCOL
from agents.portal.sync import MAX_CALLS, SHIP_SECONDS, renewal_seconds, retry_pauses
from tests.benchmarks.control_plane.node_document import NodeDocument
from tests.benchmarks.control_plane.replicas import Replicas, ReplicaTimes
from tests.benchmarks.control_plane.wire import Answer, HttpClient, Unreachable

LINE = b"started\n"
# Of a refusal that names no time.
RETRY_SECONDS = 1.0


class Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        try:
            error = answer.json()["error"]
        except (ValueError, KeyError, TypeError):
            error = {"code": str(answer.status)}
        super().__init__(error["code"])
        self.code: str = error["code"]
        self.error: dict[str, Any] = error


@dataclass
class Tally:
    """What the agents of a process have seen together."""

    replicas: list[ReplicaTimes] = field(default_factory=list)
    # Of agents that probe: from sending a report until the portal has stored and answered it.
    report_ms: list[float] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


class CoroutineAgent:
    """`probes`: sends each change with a call that the portal need not keep open, so that the time
    of its answer is the time of the report; the call that is kept open comes after it."""

    def __init__(
        self,
        name: str,
        client: HttpClient,
        document: NodeDocument,
        tally: Tally,
        *,
        run_seconds: float,
        probes: bool = False,
    ) -> None:
        self.name, self.client, self.tally, self.probes = name, client, tally, probes
        self.replicas = Replicas(run_seconds, self._changed, tally.replicas.append)
        # The portal has stored a report of the present session.
        self.is_held = False
        self._key = Ed25519PrivateKey.generate()
        self._document = document
        self._text = self._boot = self._node_id = self._token = self._acked_hash = ""
        self._epoch = self._revision = 0
        self._full = True
        self._news, self._has_log = asyncio.Event(), asyncio.Event()

    async def enrol(self, join_token: str) -> None:
        public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        self._boot = secrets.token_hex(16)
        request = EnrolRequest(self.name, join_token, public, machine_id=self._boot)
        self._node_id = (await self._post(ENROL_PATH, encode(request)))["node_id"]
        self._text = self._document.of(self._node_id, self.name, self._boot)

    async def run(self) -> None:
        """Until it is cancelled."""
        shipping = asyncio.create_task(self._ship_forever())
        try:
            async for pause in retry_pauses():
                try:
                    token_seconds = await self._hello()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(renewal_seconds(token_seconds)):
                            await self._sync_forever()
                except (Unreachable, Refused) as failure:
                    pause = self._failed(failure) * random.uniform(1, 1.5) or pause
                self.is_held = False
                await asyncio.sleep(pause)
        finally:
            shipping.cancel()

    async def _hello(self) -> float:
        """Seconds that the token lives."""
        time_ms, nonce = time.time_ns() // 1_000_000, secrets.token_urlsafe(24)
        signed = hello_bytes(self._node_id, self._boot, time_ms, nonce, PROTOCOL)
        signature = base64.b64encode(self._key.sign(signed)).decode()
        request = HelloRequest(self._node_id, self._boot, time_ms, nonce, signature)
        answer = await self._post(HELLO_PATH, encode(request))
        self._epoch, self._token, self._full = answer["epoch"], answer["access_token"], True
        return float(answer["token_seconds"])

    async def _sync_forever(self) -> None:
        """Keep one call open; open another at once when the node changes."""
        calls: set[asyncio.Task[None]] = set()
        news = asyncio.create_task(self._news.wait())
        try:
            while True:
                if not calls or news.done():
                    is_change = news.done()
                    if is_change:
                        self._news.clear()
                        news = asyncio.create_task(self._news.wait())
                    calls.add(asyncio.create_task(self._sync(probe=is_change and self.probes)))
                waiting = calls if len(calls) >= MAX_CALLS else {*calls, news}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for call in done & calls:
                    calls.discard(call)
                    call.result()
        finally:
            for task in {*calls, news}:
                task.cancel()
            await asyncio.gather(*calls, news, return_exceptions=True)

    async def _sync(self, *, probe: bool = False) -> None:
        replicas = [encode(replica) for _, replica in sorted(self.replicas.observed.items())]
        observed = f'{self._text}, "replicas": {json.dumps(replicas)}}}'
        observed_hash = hashlib.sha256(observed.encode()).hexdigest()
        full = self._full or observed_hash != self._acked_hash
        self._full, self._acked_hash = False, observed_hash
        applied = self._revision
        request = {
            "epoch": self._epoch,
            "applied_revision": applied,
            "observed_hash": observed_hash,
            "events": [],
            "hold_seconds": 0 if probe else MAX_LONG_POLL_SECONDS,
            "protocol": PROTOCOL,
        }
        body = json.dumps(request)[:-1] + f', "observed": {observed if full else "null"}}}'
        sent = time.perf_counter()
        try:
            answer = await self._post(SYNC_PATH, body.encode())
        except Refused as refused:
            if refused.code != "too_frequent":
                raise
            self._full |= full
            await asyncio.sleep(self._failed(refused))
            return
        if probe and full:
            self.tally.report_ms.append((time.perf_counter() - sent) * 1_000)
        self.tally.calls["sync_full" if full else "sync"] += 1
        self._full |= answer["full_required"]
        self._accept(answer, applied)
        self.is_held = True

    def _accept(self, answer: dict[str, Any], applied: int) -> None:
        """Unless the answer to a later call has brought a newer document already."""
        desired = answer.get("desired")
        if desired is None:
            return
        is_overtaken = self._revision != applied and desired["revision"] < self._revision
        if desired["revision"] != self._revision and not is_overtaken:
            self._revision = desired["revision"]
            self.replicas.accept(desired["replicas"])

    def _changed(self) -> None:
        self._news.set()
        if self.replicas.unshipped:
            self._has_log.set()

    async def _ship_forever(self) -> None:
        """The lines of all replicas in one call, at the agent's pace: at once when one starts."""
        while True:
            await self._has_log.wait()
            self._has_log.clear()
            try:
                await self._ship(sorted(self.replicas.unshipped)[:MAX_LOG_BATCH_CHUNKS])
            except (Unreachable, Refused) as failure:
                await asyncio.sleep(self._failed(failure))
                await asyncio.sleep(SHIP_SECONDS)
            if self.replicas.unshipped:
                self._has_log.set()

    async def _ship(self, replicas: list[str]) -> None:
        body = pack_logs([NewLogBytes(replica, 0, LINE) for replica in replicas])
        answer = await self.client.call("POST", LOGS_PATH, body, self._headers())
        self.tally.calls["log"] += 1
        if not answer.is_success:
            raise Refused(answer)
        for result in answer.json()["results"]:
            if result["code"] in ("", "replica_unknown", "offset_mismatch"):
                self.replicas.shipped(result["replica"])

    async def _post(self, path: str, value: Any) -> Any:
        answer = await self.client.post(path, value, self._headers())
        if not answer.is_success:
            raise Refused(answer)
        return answer.json()

    def _headers(self) -> dict[str, str]:
        headers = {EPOCH_HEADER: str(self._epoch)}
        return headers | ({"Authorization": f"Agent {self._token}"} if self._token else {})

    def _failed(self, failure: Unreachable | Refused) -> float:
        """Count it. Seconds to wait at least."""
        if isinstance(failure, Unreachable):
            self.tally.failures["unreachable"] += 1
            return 0.0
        self.tally.failures[failure.code] += 1
        seconds = float(failure.error.get("retry_seconds", RETRY_SECONDS))
        return seconds if failure.code == "too_frequent" else 0.0
