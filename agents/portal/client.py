"""The calls of the contract over HTTP. Tests replace the transport."""

import logging
from dataclasses import replace
from typing import Any, TypeVar

import httpx

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    LOG_PATH,
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
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.newer_documents import read_newer_desired
from agents.contract.telemetry import TelemetryRequest, TelemetryResponse

# The portal may keep a long poll open a fifth longer, and then needs time to respond.
TIMEOUT = httpx.Timeout(MAX_LONG_POLL_SECONDS * 1.2 + 15, connect=5)


Response = TypeVar("Response")
log = logging.getLogger("agents.portal.client")


class PortalUnreachable(Exception):
    """The portal did not answer, or not as the contract says. Try again later."""


class PortalClient:
    """The calls of one agent. After `hello`, each carries the access token and the epoch."""

    def __init__(self, portal: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        limits = httpx.Limits(max_connections=16, max_keepalive_connections=8)
        self._http = httpx.AsyncClient(
            base_url=portal, timeout=TIMEOUT, limits=limits, transport=transport, trust_env=False
        )
        self.epoch = 0
        self._token = ""

    async def close(self) -> None:
        await self._http.aclose()

    async def enrol(self, request: EnrolRequest) -> EnrolResponse:
        return _read(EnrolResponse, await self._post(ENROL_PATH, request))

    async def hello(self, request: HelloRequest) -> HelloResponse:
        answer = _read(HelloResponse, await self._post(HELLO_PATH, request))
        self.epoch, self._token = answer.epoch, answer.access_token
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

    async def telemetry(self, request: TelemetryRequest) -> TelemetryResponse:
        return _read(TelemetryResponse, await self._post(TELEMETRY_PATH, request))

    async def _post(self, path: str, body: Any) -> Any:
        return await self._send("POST", path, json=encode(body))

    async def _send(self, method: str, path: str, **options: Any) -> Any:
        headers = {EPOCH_HEADER: str(self.epoch)}
        if self._token:
            headers["Authorization"] = f"Agent {self._token}"
        try:
            answer = await self._http.request(method, path, headers=headers, **options)
        except httpx.HTTPError as error:
            raise PortalUnreachable(f"{method} {path}: {error or type(error).__name__}") from error
        if answer.is_success:
            return answer.json()
        raise _refusal(answer)


def _read(kind: type[Response], answer: Any) -> Response:
    """What a newer portal adds to a response is ignored."""
    response, errors = decode_leniently(kind, answer)
    if errors:
        log.info("response_not_known", extra={"fields": [error.field for error in errors]})
    return response


def _refusal(answer: httpx.Response) -> Exception:
    """The contract's error in a response; PortalUnreachable for any other response."""
    try:
        error = answer.json()["error"]
        code = ContractErrorCode(error["code"])
    except (ValueError, KeyError, TypeError):
        return PortalUnreachable(f"the portal answered {answer.status_code}")
    if code is ContractErrorCode.UNAVAILABLE:
        return PortalUnreachable(error["sentence"])
    extra = {k: v for k, v in error.items() if k not in ("code", "sentence", "field")}
    return ContractError(code, error["sentence"], error.get("field", ""), extra)
