"""The agents' endpoint: routing, refusals, failures. An ASGI app beside Django's middleware."""

import logging
import re
from urllib.parse import parse_qs

from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    MAX_BODY_BYTES,
    MAX_LOG_CHUNK_BYTES,
    SYNC_PATH,
    TELEMETRY_PATH,
    EnrolRequest,
    HelloRequest,
    SyncRequest,
)
from agents.contract.codec import decode
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.telemetry import TelemetryRequest
from portal.agentapi import enrolment, sync
from portal.agentapi.http import (
    Disconnected,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    read_json,
    send_json,
)
from portal.agentapi.logs import LogCall, log_append
from portal.agentapi.long_poll import long_poll, newest_poll
from portal.agentapi.telemetry import telemetry_accept
from portal.agentapi.threads import run_in_thread
from portal.inventory.credentials import claimed_node_id
from portal.live.listener import subscribe
from portal.storage.errors import StoreError

PREFIX = "/agent/v1/"
LOG = re.compile(r"/agent/v1/replicas/(?P<replica>[^/]+)/log")
FAILED = {"error": {"code": "internal", "sentence": "the portal failed: try again", "field": ""}}
NO_SUCH = {"error": {"code": "not_found", "sentence": "no such call", "field": ""}}

log = logging.getLogger(__name__)


async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one call of an agent."""
    try:
        status, value = await _respond(scope, receive)
    except Disconnected:
        return
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            log.exception("agent call %s failed", scope["path"])
        status, value = (refusal.status, refusal.body()) if refusal else (500, FAILED)
    if value is not None:
        await send_json(send, status, value)


def _refusal(error: Exception) -> ContractError | None:
    """The refusal that tells the caller what to do; None for a failure of ours."""
    match error:
        case ContractError():
            return error
        case DataError() | OverflowError():
            return ContractError(ContractErrorCode.INVALID_FIELD, "a value is too large to store")
        case OperationalError() | InterfaceError():
            log.warning("agents wait for the database: %s", error)
            return ContractError(
                ContractErrorCode.UNAVAILABLE, "the database is unavailable: try again"
            )
        case StoreError():
            log.warning("agents keep their logs for now: %s", error)
            return ContractError(ContractErrorCode.UNAVAILABLE, error.sentence)
        case _:
            return None


async def _respond(scope: Scope, receive: Receive) -> tuple[int, object]:
    """The status and body. A body of None: the caller has hung up."""
    call = (scope["method"], scope["path"])
    if call == ("POST", SYNC_PATH):
        return 200, await _sync(scope, receive)
    if call == ("POST", HELLO_PATH):
        hello = decode(HelloRequest, await _json(scope, receive))
        return 200, await run_in_thread(enrolment.hello, request=hello)
    if call == ("POST", ENROL_PATH):
        enrol = decode(EnrolRequest, await _json(scope, receive))
        return 200, await run_in_thread(enrolment.enrol, request=enrol)
    if call == ("POST", TELEMETRY_PATH):
        return 200, await _telemetry(scope, receive)
    match = LOG.fullmatch(scope["path"])
    if match and scope["method"] == "PUT":
        return 200, await _log(scope, receive, match["replica"])
    return 404, NO_SUCH


async def _json(scope: Scope, receive: Receive) -> object:
    return read_json(await read_body(scope, receive, MAX_BODY_BYTES))


async def _sync(scope: Scope, receive: Receive) -> object:
    authorization = header(scope, "authorization")
    node_id = claimed_node_id(authorization)
    request = decode(SyncRequest, await _json(scope, receive))
    # Registered before anything is read: a ring from here on is not missed.
    with subscribe(f"node:{node_id}") as bell:
        state = await run_in_thread(sync.sync_accept, authorization=authorization, request=request)
        with newest_poll(node_id, bell):
            if state.has_news:
                revision = state.revision
                return await run_in_thread(sync.sync_answer, state=state, revision=revision)
            seconds = min(request.hold_seconds, settings.PLATFORM.hold_seconds)
            return await long_poll(bell, state, seconds, receive)


async def _telemetry(scope: Scope, receive: Receive) -> object:
    request = decode(TelemetryRequest, await _json(scope, receive))
    authorization = header(scope, "authorization")
    return await run_in_thread(telemetry_accept, authorization=authorization, request=request)


async def _log(scope: Scope, receive: Receive, replica: str) -> object:
    epoch = _number(header(scope, EPOCH_HEADER), EPOCH_HEADER)
    offset = _number(
        parse_qs(scope["query_string"].decode("latin-1")).get("offset", [""])[0], "offset"
    )
    return await log_append(
        LogCall(
            authorization=header(scope, "authorization"),
            epoch=epoch,
            replica=replica,
            offset=offset,
            data=await read_body(scope, receive, MAX_LOG_CHUNK_BYTES),
        )
    )


def _number(text: str, field: str) -> int:
    # At most 18 digits: what a BIGINT column holds.
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ContractError(ContractErrorCode.INVALID_FIELD, "expected a whole number", field)
    return int(text)
