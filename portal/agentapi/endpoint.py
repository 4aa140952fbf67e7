"""The agents' endpoint: routing, refusals, failures. An ASGI app beside Django's middleware."""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qs
from uuid import UUID

from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    LOGS_PATH,
    MAX_BODY_BYTES,
    MAX_GREETING_BYTES,
    MAX_LOG_CHUNK_BYTES,
    SYNC_PATH,
    TELEMETRY_PATH,
    EnrolRequest,
    HelloRequest,
    SyncRequest,
)
from agents.contract.codec import decode
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.job_metrics import (
    JOB_METRICS_PATH,
    MAX_METRICS_BODY_BYTES,
    JobMetricsRequest,
)
from agents.contract.log_batch import MAX_LOG_BATCH_BODY_BYTES, NewLogBytes, unpack_logs
from agents.contract.telemetry import TelemetryRequest
from portal.agentapi import enrolment, sync
from portal.agentapi.door import door, too_frequent
from portal.agentapi.file_calls import file_call, file_call_name
from portal.agentapi.http import (
    Disconnected,
    announced_bytes,
    read_body,
    read_json,
    read_whole_number,
    require_tls,
    send_answer,
)
from portal.agentapi.job_metrics import job_metrics_accept
from portal.agentapi.logs import LogCall, log_append, logs_append
from portal.agentapi.long_poll import long_poll, newest_poll
from portal.agentapi.refusals import refusal_record, refusals_recorded
from portal.agentapi.secrets import pull_credential_deliver, secrets_deliver
from portal.agentapi.telemetry import telemetry_accept
from portal.agentapi.threads import (
    RunInThread,
    run_in_decode_thread,
    run_in_file_thread,
    run_in_log_thread,
    run_in_thread,
)
from portal.asgi_scope import Receive, Scope, Send, header
from portal.audit.codes import AuditAction
from portal.live.listener import subscribe
from portal.metrics import AGENT_CALLS, REPORT_SECONDS
from portal.storage.errors import StoreError
from portal.token_buckets import TokenBuckets

Request = TypeVar("Request", EnrolRequest, HelloRequest, SyncRequest, TelemetryRequest)

PREFIX = "/agent/v1/"
UNAVAILABLE_SECONDS = 2
# The server itself reads this much of a refused body, and the connection carries the next call.
DRAINED_BYTES = 64 << 10
# The body of an enrolment or a hello is there by then.
GREETING_SECONDS = 10
# Refusals of a token: the door no longer takes it for known.
TOKEN_REFUSED = frozenset(
    {
        ContractErrorCode.TOKEN_INVALID,
        ContractErrorCode.EPOCH_STALE,
        ContractErrorCode.NODE_RETIRED,
    }
)
NAMED_PATHS = (SYNC_PATH, HELLO_PATH, ENROL_PATH, TELEMETRY_PATH, JOB_METRICS_PATH)
OF_REPLICA = re.compile(
    r"/agent/v1/replicas/(?P<replica>[^/]+)/(?P<call>log|secrets|pull-credential)"
)
DELIVERIES = {"secrets": secrets_deliver, "pull-credential": pull_credential_deliver}
FAILED = {"error": {"code": "internal", "sentence": "the portal failed: try again", "field": ""}}
NO_SUCH = {"error": {"code": "not_found", "sentence": "no such call", "field": ""}}

log = logging.getLogger(__name__)


async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one call of an agent."""
    retry_after = 0
    try:
        status, value = await _respond(scope, receive)
    except Disconnected:
        return
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            log.exception("agent call %s failed", scope["path"])
        elif refusal.code is ContractErrorCode.TOO_FREQUENT:
            await refusal_record(AuditAction.THROTTLED, refusal)
        elif refusal.code in TOKEN_REFUSED:
            door().read_again(header(scope, "authorization"))
        status, value = (refusal.status, refusal.body()) if refusal else (500, FAILED)
        retry_after = _retry_after(refusal) if refusal else 0
    if value is not None:
        AGENT_CALLS.labels(_call_name(scope), str(status)).inc()
        # Of a large body that was refused, the rest is not worth reading.
        is_unread = status >= 400 and announced_bytes(scope, MAX_BODY_BYTES) > DRAINED_BYTES
        await send_answer(send, status, value, retry_after=retry_after, closes=is_unread)


def _call_name(scope: Scope) -> str:
    """The call, without the replica, file or tree that it is about."""
    if match := OF_REPLICA.fullmatch(scope["path"]):
        return match["call"]
    if name := file_call_name(scope["path"]):
        return name
    is_known = scope["path"] in NAMED_PATHS
    return scope["path"].rpartition("/")[2] if is_known else "unknown"


def _retry_after(refusal: ContractError) -> int:
    if refusal.code is ContractErrorCode.UNAVAILABLE:
        return UNAVAILABLE_SECONDS
    return refusal.retry_seconds


def refusal_of(error: Exception) -> ContractError | None:
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
            log.warning("agents keep their bytes for now: %s", error)
            return ContractError(ContractErrorCode.UNAVAILABLE, error.sentence)
        case _:
            return None


async def _respond(scope: Scope, receive: Receive) -> tuple[int, object]:
    """The status and body. A body of None: the caller has hung up."""
    require_tls(scope)
    call = (scope["method"], scope["path"])
    if call == ("POST", SYNC_PATH):
        return 200, await _sync(scope, receive)
    if call == ("POST", HELLO_PATH):
        return 200, await _hello(scope, receive)
    if call == ("POST", ENROL_PATH):
        return 200, await _enrol(scope, receive)
    if call == ("POST", TELEMETRY_PATH):
        return 200, await _telemetry(scope, receive)
    if call == ("POST", JOB_METRICS_PATH):
        return 200, await _job_metrics(scope, receive)
    if call == ("POST", LOGS_PATH):
        return 200, await _logs(scope, receive)
    if match := OF_REPLICA.fullmatch(scope["path"]):
        if (scope["method"], match["call"]) == ("PUT", "log"):
            return 200, await _log(scope, receive, match["replica"])
        if scope["method"] == "POST" and (deliver := DELIVERIES.get(match["call"])):
            return 200, await _secrets(scope, match["replica"], deliver)
    if serve := file_call(scope):
        await _caller(scope, door().file_calls, run_in_file_thread)
        return 200, await serve(scope, receive)
    return 404, NO_SUCH


async def _enrol(scope: Scope, receive: Receive) -> object:
    request = await _read_greeting(EnrolRequest, scope, receive)
    async with refusals_recorded(AuditAction.ENROLMENT_REFUSED):
        with door().enrolment(scope):
            return await run_in_thread(enrolment.enrol, request=request)


async def _hello(scope: Scope, receive: Receive) -> object:
    request = await _read_greeting(HelloRequest, scope, receive)
    async with refusals_recorded(AuditAction.HELLO_REFUSED):
        with door().hello(scope, request.node_id):
            return await run_in_thread(enrolment.hello, request=request)


async def _read_greeting(kind: type[Request], scope: Scope, receive: Receive) -> Request:
    """The body of a call without a token: small, soon, and counted if it makes no sense."""
    try:
        async with asyncio.timeout(GREETING_SECONDS):
            body = await read_body(scope, receive, MAX_GREETING_BYTES)
        return decode(kind, read_json(body))
    except TimeoutError:
        door().refused_greeting(scope)
        sentence = f"the body did not arrive within {GREETING_SECONDS} s"
        raise ContractError(ContractErrorCode.MALFORMED, sentence) from None
    except ContractError:
        door().refused_greeting(scope)
        raise


async def _read_report(
    kind: type[Request], scope: Scope, receive: Receive, node_id: UUID
) -> Request:
    """The body of a caller that is known, decoded while the event loop goes on."""
    if wait := door().reported_kib.take(node_id, announced_bytes(scope, MAX_BODY_BYTES) / 1024):
        raise too_frequent(wait)
    body = await read_body(scope, receive, MAX_BODY_BYTES)
    return await run_in_decode_thread(lambda: decode(kind, read_json(body)))


async def _caller(scope: Scope, calls: TokenBuckets, run: RunInThread = run_in_thread) -> UUID:
    """The node that makes the call. Raises ContractError; an unknown token is a security event."""
    async with refusals_recorded(AuditAction.AGENT_TOKEN_REFUSED):
        return await door().caller(scope, calls, run)


async def _sync(scope: Scope, receive: Receive) -> object:
    node_id = await _caller(scope, door().reports)
    request = await _read_report(SyncRequest, scope, receive, node_id)
    authorization = header(scope, "authorization")
    # Registered before anything is read: a ring from here on is not missed.
    with subscribe(f"node:{node_id}") as bell:
        begun = time.monotonic()
        state, answer = await run_in_thread(
            sync.sync_exchange, authorization=authorization, request=request
        )
        REPORT_SECONDS.observe(time.monotonic() - begun)
        with newest_poll(node_id, bell):
            if answer:
                return answer
            seconds = min(request.hold_seconds, settings.PLATFORM.hold_seconds)
            return await long_poll(bell, state, seconds, receive)


async def _telemetry(scope: Scope, receive: Receive) -> object:
    node_id = await _caller(scope, door().reports)
    request = await _read_report(TelemetryRequest, scope, receive, node_id)
    authorization = header(scope, "authorization")
    return await run_in_thread(telemetry_accept, authorization=authorization, request=request)


async def _job_metrics(scope: Scope, receive: Receive) -> object:
    await _caller(scope, door().metrics_calls, run_in_log_thread)
    body = await read_body(scope, receive, MAX_METRICS_BODY_BYTES)
    request = await run_in_decode_thread(lambda: decode(JobMetricsRequest, read_json(body)))
    authorization = header(scope, "authorization")
    return await run_in_log_thread(job_metrics_accept, authorization=authorization, request=request)


async def _secrets(scope: Scope, replica: str, deliver: Callable[..., object]) -> object:
    await _caller(scope, door().reports)
    epoch = read_whole_number(header(scope, EPOCH_HEADER), EPOCH_HEADER)
    authorization = header(scope, "authorization")
    return await run_in_thread(deliver, authorization=authorization, epoch=epoch, replica=replica)


async def _log(scope: Scope, receive: Receive, replica: str) -> object:
    await _caller(scope, door().log_chunks, run_in_log_thread)
    epoch = read_whole_number(header(scope, EPOCH_HEADER), EPOCH_HEADER)
    offset = read_whole_number(
        parse_qs(scope["query_string"].decode("latin-1")).get("offset", [""])[0], "offset"
    )
    chunk = NewLogBytes(replica, offset, await read_body(scope, receive, MAX_LOG_CHUNK_BYTES))
    return await log_append(LogCall(header(scope, "authorization"), epoch, (chunk,)))


async def _logs(scope: Scope, receive: Receive) -> object:
    node_id = await _caller(scope, door().log_chunks, run_in_log_thread)
    epoch = read_whole_number(header(scope, EPOCH_HEADER), EPOCH_HEADER)
    # The caller has paid for one chunk: so many bytes are as good as several.
    more = announced_bytes(scope, MAX_LOG_BATCH_BODY_BYTES) // MAX_LOG_CHUNK_BYTES
    if wait := door().log_chunks.take(node_id, more):
        raise too_frequent(wait)
    chunks = unpack_logs(await read_body(scope, receive, MAX_LOG_BATCH_BODY_BYTES))
    return await logs_append(LogCall(header(scope, "authorization"), epoch, chunks))
