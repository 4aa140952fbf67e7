"""HTTP for a handful of calls: bounded bodies in, JSON out. Knows nothing of nodes."""

import json
import re
from typing import Any

from agents.contract.codec import encode
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.node_limits import MAX_OBJECTS
from agents.contract.protocol import PROTOCOL, check_protocol
from portal.asgi_scope import Receive, Scope, Send, header, is_private
from portal.client_address import address_network, scope_address


class Disconnected(Exception):
    """The caller hung up before its body was complete."""


def caller_address(scope: Scope) -> str:
    """The address to count calls by; empty behind a Unix socket."""
    return address_network(scope_address(scope))


def require_tls(scope: Scope) -> None:
    """Refuse plain HTTP where pages would be redirected to HTTPS, but for an agent on the portal's
    own machine. Raises ContractError(TLS_REQUIRED)."""
    if is_private(scope):
        return
    sentence = "tokens and environments travel here: call the portal by its https:// address"
    raise ContractError(ContractErrorCode.TLS_REQUIRED, sentence)


def announced_bytes(scope: Scope, unknown: int) -> int:
    """The length of the body, by its header; `unknown` if it comes in chunks."""
    announced = header(scope, "content-length")
    if announced.isdecimal():
        return int(announced)
    return unknown if header(scope, "transfer-encoding") else 0


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body. Raises ContractError(TOO_LARGE) without reading past `limit` bytes."""
    if announced_bytes(scope, 0) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def read_body_into(scope: Scope, receive: Receive, memory: memoryview) -> memoryview:
    """The whole body, as the beginning of `memory`. Raises ContractError(TOO_LARGE) beyond it."""
    if announced_bytes(scope, 0) > len(memory):
        raise _too_large(len(memory))
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        if size + len(piece) > len(memory):
            raise _too_large(len(memory))
        memory[size : size + len(piece)] = piece
        size += len(piece)
        if not message.get("more_body", False):
            return memory[:size]


def read_json(body: bytes) -> Any:
    """The JSON object in the body, of a protocol version that we speak. Raises ContractError."""
    # Counted by the bytes, a thousand times faster than by reading them.
    if body.count(b"{") + body.count(b"[") > MAX_OBJECTS:
        sentence = f"at most {MAX_OBJECTS} objects and lists: no node has more to report"
        raise ContractError(ContractErrorCode.MALFORMED, sentence)
    try:
        data = json.loads(body)
        # JSON can carry what the database cannot store: NUL and half a surrogate pair.
        if b"\\u" in body:
            _require_storable(data)
    except (ValueError, RecursionError):
        raise ContractError(ContractErrorCode.MALFORMED, "the body is not JSON text") from None
    if not isinstance(data, dict):
        raise ContractError(ContractErrorCode.MALFORMED, "expected a JSON object")
    check_protocol(data.get("protocol", PROTOCOL))
    return data


def _require_storable(data: Any) -> None:
    if isinstance(data, str):
        data.encode()
        if "\0" in data:
            raise ValueError
    elif isinstance(data, dict):
        for key, value in data.items():
            _require_storable(key)
            _require_storable(value)
    elif isinstance(data, list):
        for item in data:
            _require_storable(item)


def read_whole_number(text: str, field: str) -> int:
    """Raises ContractError(INVALID_FIELD)."""
    # At most 18 digits: what a BIGINT column holds.
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ContractError(ContractErrorCode.INVALID_FIELD, "expected a whole number", field)
    return int(text)


def _too_large(limit: int) -> ContractError:
    return ContractError(ContractErrorCode.TOO_LARGE, f"the body may have at most {limit} bytes")


async def send_answer(
    send: Send, status: int, value: object, *, retry_after: int = 0, closes: bool = False
) -> None:
    """`value`: bytes as they are, or what is written as JSON. `retry_after`: seconds for that
    header; 0 leaves it out. `closes`: a part of the request's body was not read, so the connection
    cannot carry another call."""
    if isinstance(value, bytes):
        kind, body = b"application/octet-stream", value
    else:
        kind, body = b"application/json", json.dumps(encode(value), separators=(",", ":")).encode()
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if retry_after:
        headers.append((b"retry-after", str(retry_after).encode()))
    if closes or status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
