"""The calls of the contract over HTTP. Tests replace the transport.

A call that gets no answer makes the next one go to the next address of the portal. The session
stays the same: it is one with the portal, not with an address.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import httpx

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    LOG_PATH,
    LOGS_PATH,
    MAX_LONG_POLL_SECONDS,
    SYNC_PATH,
    TELEMETRY_PATH,
    EnrolRequest,
    EnrolResponse,
    HelloRequest,
    HelloResponse,
    LogResponse,
    SyncRequest,
    SyncResponse,
)
from agents.contract.codec import decode_leniently, encode
from agents.contract.direct_transfer import (
    PARTS_PATH,
    FetchPartsResponse,
    PartsRequest,
    SendPartsResponse,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    FILE_PATH,
    HAVE_PATH,
    TREE_PATH,
    TREES_PATH,
    FileContent,
    FileProgress,
    HaveRequest,
    HaveResponse,
    TreeCommitRequest,
    TreeCommitResponse,
    TreePage,
)
from agents.contract.job_metrics import (
    JOB_METRICS_PATH,
    JobMetricsRequest,
    JobMetricsResponse,
)
from agents.contract.job_secrets import SECRETS_PATH, SecretsResponse
from agents.contract.log_batch import LogBatchResponse, LogChunkResult, NewLogBytes, pack_logs
from agents.contract.newer_documents import read_newer_desired
from agents.contract.registries import PULL_CREDENTIAL_PATH, PullCredentialResponse
from agents.contract.telemetry import TelemetryRequest, TelemetryResponse
from agents.route.connection import failure_of, http_options
from agents.route.portal_route import PortalRoute

# The portal may keep a long poll open a fifth longer, and then needs time to respond.
TIMEOUT = httpx.Timeout(MAX_LONG_POLL_SECONDS * 1.2 + 15, connect=5)
# The code of a portal's 404 for a path that it does not know.
NO_SUCH_CALL = "not_found"

Response = TypeVar("Response")
log = logging.getLogger("agents.portal.client")


class PortalUnreachable(Exception):
    """The portal did not answer, or not as the contract says. Try again later."""


class PortalOlder(PortalUnreachable):
    """The portal does not know this call."""


class PortalBarred(PortalUnreachable):
    """Nor will it: a person has to change the way to it first. The text says how."""


class PortalClient:
    """The calls of one agent. After `hello`, each carries the access token and the epoch."""

    def __init__(
        self, route: PortalRoute, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Raises OSError if the route's file of authorities cannot be used."""
        limits = httpx.Limits(max_connections=16, max_keepalive_connections=8)
        options = http_options(route) if transport is None else {"transport": transport}
        self._http = httpx.AsyncClient(timeout=TIMEOUT, limits=limits, **options)
        self.route = route
        # The one that answered last, or that is tried next.
        self.address = route.addresses[0]
        self.epoch = 0
        # What the portal offered in its answer to the last hello.
        self.has_direct_transfer = False
        self._token = ""
        # The first hello was answered: calls carry a token from then on.
        self.has_greeted = asyncio.Event()

    async def close(self) -> None:
        await self._http.aclose()

    async def enrol(self, request: EnrolRequest) -> EnrolResponse:
        return _read(EnrolResponse, await self._post(ENROL_PATH, request))

    async def hello(self, request: HelloRequest) -> HelloResponse:
        answer = _read(HelloResponse, await self._post(HELLO_PATH, request))
        self.epoch, self._token = answer.epoch, answer.access_token
        self.has_direct_transfer = answer.direct_transfer
        self.has_greeted.set()
        return answer

    async def sync(self, request: SyncRequest) -> SyncResponse:
        answer = await self._post(SYNC_PATH, request)
        desired = answer.pop("desired", None) if isinstance(answer, dict) else None
        response = _read(SyncResponse, answer)
        return replace(response, desired=read_newer_desired(desired)) if desired else response

    async def log(self, replica: str, offset: int, data: bytes) -> LogResponse:
        path = LOG_PATH.format(replica=replica)
        answer = await self._send("PUT", path, params={"offset": offset}, content=data)
        return _read(LogResponse, answer)

    async def logs(self, chunks: Sequence[NewLogBytes]) -> tuple[LogChunkResult, ...]:
        """New bytes of several logs, each replica once. Raises PortalOlder."""
        body = {"content": pack_logs(chunks)}
        return _read(LogBatchResponse, await self._send("POST", LOGS_PATH, **body)).results

    async def secrets(self, replica: str) -> SecretsResponse:
        answer = await self._send("POST", SECRETS_PATH.format(replica=replica))
        return _read(SecretsResponse, answer)

    async def pull_credential(self, replica: str) -> PullCredentialResponse:
        """Raises PortalOlder."""
        answer = await self._send("POST", PULL_CREDENTIAL_PATH.format(replica=replica))
        return _read(PullCredentialResponse, answer)

    async def files_have(self, replica: str, files: Sequence[FileContent]) -> HaveResponse:
        """Raises PortalOlder, as all calls with files do."""
        request = HaveRequest(replica, tuple(files))
        return _read(HaveResponse, await self._post(HAVE_PATH, request))

    async def file_put(
        self, replica: str, content: FileContent, offset: int, data: bytes
    ) -> FileProgress:
        path = FILE_PATH.format(sha256=content.sha256)
        params = {"replica": replica, "size": content.size, "offset": offset}
        answer = await self._send("PUT", path, params=params, content=data)
        return _read(FileProgress, answer)

    async def file_get(self, replica: str, sha256: str, offset: int) -> bytes:
        """At most a chunk; empty at the end."""
        params = {"replica": replica, "offset": offset}
        path = FILE_PATH.format(sha256=sha256)
        chunk: bytes = await self._content("GET", path, _bytes_of, params=params)
        return chunk

    async def parts_to_send(
        self, replica: str, content: FileContent, end: int
    ) -> SendPartsResponse:
        path = PARTS_PATH.format(sha256=content.sha256)
        request = PartsRequest(replica, content.size, end)
        return _read(SendPartsResponse, await self._post(path, request))

    async def parts_to_fetch(self, replica: str, sha256: str, offset: int) -> FetchPartsResponse:
        path = PARTS_PATH.format(sha256=sha256)
        params = {"replica": replica, "offset": offset}
        return _read(FetchPartsResponse, await self._send("GET", path, params=params))

    async def tree_commit(self, request: TreeCommitRequest) -> TreeCommitResponse:
        return _read(TreeCommitResponse, await self._post(TREES_PATH, request))

    async def tree_page(self, replica: str, tree: str, after: int) -> TreePage:
        params = {"replica": replica, "after": after}
        answer = await self._send("GET", TREE_PATH.format(tree=tree), params=params)
        return _read(TreePage, answer)

    async def telemetry(self, request: TelemetryRequest) -> TelemetryResponse:
        return _read(TelemetryResponse, await self._post(TELEMETRY_PATH, request))

    async def job_metrics(self, request: JobMetricsRequest) -> JobMetricsResponse:
        """Raises PortalOlder."""
        return _read(JobMetricsResponse, await self._post(JOB_METRICS_PATH, request))

    async def _post(self, path: str, body: Any) -> Any:
        return await self._send("POST", path, json=encode(body))

    async def _send(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of a success. Raises ContractError or PortalUnreachable."""
        return await self._content(method, path, _json_of, **options)

    async def _content(
        self, method: str, path: str, read: Callable[[httpx.Response], Any], **options: Any
    ) -> Any:
        """What `read` makes of the answer. Raises what it raises."""
        address = self.address
        try:
            answer = await self._http.request(
                method, address + path, headers=self.headers(), **options
            )
        except httpx.HTTPError as error:
            self.leave(address)
            failure = failure_of(error, address, self.route)
            kind = PortalBarred if failure.mend else PortalUnreachable
            raise kind(failure.sentence) from error
        try:
            return read(answer)
        except PortalOlder:
            raise
        except PortalUnreachable:
            self.leave(address)
            raise

    def headers(self) -> dict[str, str]:
        """Who calls, for each call after the first hello."""
        headers = {EPOCH_HEADER: str(self.epoch)}
        if self._token:
            headers["Authorization"] = f"Agent {self._token}"
        return headers

    def leave(self, address: str) -> None:
        """Go on to the next address, unless another call that failed has done so already."""
        addresses = self.route.addresses
        if address == self.address and len(addresses) > 1:
            self.address = addresses[(addresses.index(address) + 1) % len(addresses)]
            log.info("portal_address", extra={"address": self.address, "left": address})


def _read(kind: type[Response], answer: Any) -> Response:
    """What a newer portal adds to a response is ignored."""
    response, errors = decode_leniently(kind, answer)
    if errors:
        log.info("response_not_known", extra={"fields": [error.field for error in errors]})
    return response


def _json_of(answer: httpx.Response) -> Any:
    """The JSON of a success. Raises ContractError or PortalUnreachable."""
    try:
        return json.loads(_bytes_of(answer))
    except ValueError as error:
        raise PortalUnreachable(f"{answer.url} did not answer as a portal does") from error


def _bytes_of(answer: httpx.Response) -> bytes:
    """The body of a success. Raises ContractError or PortalUnreachable."""
    if not answer.is_success:
        raise _refusal(answer)
    return answer.content


def _refusal(answer: httpx.Response) -> Exception:
    """The contract's error in a response; PortalUnreachable for any other response."""
    try:
        error = answer.json()["error"]
        if error["code"] == NO_SUCH_CALL:
            return PortalOlder(f"{answer.url} is no call of this portal: update it")
        code = ContractErrorCode(error["code"])
    except (ValueError, KeyError, TypeError):
        return PortalUnreachable(f"{answer.url} answered {answer.status_code}")
    if code is ContractErrorCode.UNAVAILABLE:
        return PortalUnreachable(error["sentence"])
    extra = {k: v for k, v in error.items() if k not in ("code", "sentence", "field")}
    return ContractError(code, error["sentence"], error.get("field", ""), extra)
