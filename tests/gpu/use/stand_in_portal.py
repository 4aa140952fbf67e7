"""A portal on loopback that gives one node one replica after another, each on all of its first GPU.

It speaks the agents' contract and nothing else: it wants no slice and no mode of a GPU.
"""

import contextlib
import json
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents.contract.calls import (
    ENROL_PATH,
    HELLO_PATH,
    LOGS_PATH,
    SYNC_PATH,
    TELEMETRY_PATH,
    EnrolResponse,
    HelloResponse,
    LogResponse,
    SyncRequest,
    SyncResponse,
)
from agents.contract.codec import decode, encode
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    DesiredReplicaState,
    Device,
    ObservedDocument,
    ReplicaState,
)
from agents.contract.log_batch import LogBatchResponse, LogChunkResult, unpack_logs
from agents.contract.telemetry import TelemetryResponse

NODE = "n-1"
LEASE_SECONDS = 300
HOLD_SECONDS = 1.0
ENDED = (ReplicaState.EXITED, ReplicaState.FAILED, ReplicaState.LOST)


class StandInPortal:
    """`command`: what every replica runs. Thread-safe."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.command = command
        self.ended: list[dict[str, Any]] = []
        self.logs: dict[str, bytes] = {}
        self.samples = 0
        self.syncs = 0
        self.observed: ObservedDocument | None = None
        self._epoch = 0
        self._acked = 0
        self._number = 0
        self._desired = DesiredDocument(NODE)
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: Any) -> Any:
        if path == ENROL_PATH:
            return EnrolResponse(NODE)
        if path == HELLO_PATH:
            self._epoch += 1
            return HelloResponse(self._epoch, "token", 3600, LEASE_SECONDS, self._acked, _now())
        if path == TELEMETRY_PATH:
            self.samples += 1
            return TelemetryResponse(next_seconds=1)
        if path == SYNC_PATH:
            return self._sync(decode(SyncRequest, body))
        raise ValueError(path)

    def log(self, replica: str, offset: int, data: bytes) -> LogResponse:
        with self._changed:
            known = self.logs.setdefault(replica, b"")
            self.logs[replica] = known[:offset] + data
        return LogResponse(offset + len(data))

    def log_batch(self, body: bytes) -> LogBatchResponse:
        return LogBatchResponse(
            tuple(
                LogChunkResult(
                    chunk.replica, self.log(chunk.replica, chunk.offset, chunk.data).next_offset
                )
                for chunk in unpack_logs(body)
            )
        )

    def _sync(self, request: SyncRequest) -> SyncResponse:
        with self._changed:
            self.syncs += 1
            self._acked = max((event.seq for event in request.events), default=self._acked)
            if request.observed is not None:
                self.observed = request.observed
                self._follow(request.observed)
            elif request.applied_revision == self._desired.revision:
                self._changed.wait(min(HOLD_SECONDS, request.hold_seconds))
            is_new = request.applied_revision != self._desired.revision
            return SyncResponse(
                epoch=self._epoch,
                acked_seq=self._acked,
                lease_seconds=LEASE_SECONDS,
                revision=self._desired.revision,
                full_required=self.observed is None,
                server_time=_now(),
                desired=self._desired if is_new else None,
            )

    def _follow(self, observed: ObservedDocument) -> None:
        """The next replica once the present one has ended and is gone from the document."""
        wanted = {replica.id for replica in self._desired.replicas}
        there = {replica.id: replica for replica in observed.replicas}
        ended = [there[name] for name in wanted & there.keys() if there[name].state in ENDED]
        if ended:
            self.ended += [encode(replica) for replica in ended]
            self._want()
        elif not wanted and not there and observed.gpus:
            self._number += 1
            uuid = observed.gpus[0].uuid
            device = Device(f"a-{self._number}", f"s-{self._number}", gpu_uuid=uuid)
            self._want(
                DesiredReplica(
                    id=f"r-{self._number}",
                    job=f"j-{self._number}",
                    fence=self._number,
                    wish=DesiredReplicaState.RUN,
                    command=self.command,
                    devices=(device,),
                )
            )

    def _want(self, *replicas: DesiredReplica) -> None:
        revision = self._desired.revision + 1
        self._desired = DesiredDocument(NODE, revision, replicas=replicas)
        self._changed.notify_all()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        portal = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                if self.path == LOGS_PATH:
                    self._send(portal.log_batch(self._body()))
                else:
                    self._send(portal.answer(self.path, json.loads(self._body())))

            def do_PUT(self) -> None:
                path, _, query = self.path.partition("?offset=")
                self._send(portal.log(path.split("/")[-2], int(query), self._body()))

            def log_message(self, *_: Any) -> None:
                """The agent's log has them."""

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers["Content-Length"]))

            def _send(self, answer: Any) -> None:
                data = json.dumps(encode(answer)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                # An agent that ends leaves its long poll.
                with contextlib.suppress(ConnectionError):
                    self.end_headers()
                    self.wfile.write(data)

        return Handler


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat()
