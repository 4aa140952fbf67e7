"""The app of `make bench-apps`, as a model server speaks: an ASGI application without a model.

`POST /v1/chat/completions` streams TOKENS chunks, one every TOKEN_SECONDS; `GET /small` answers at
once; `PUT /upload` reads its body and answers with its size; a WebSocket echoes.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

TOKENS, TOKEN_SECONDS = 100, 0.02


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await _echo(receive, send)
    elif scope["path"] == "/v1/chat/completions":
        await _stream(receive, send)
    else:
        size = await _body_size(receive)
        await _begin(send, b"application/json")
        await send({"type": "http.response.body", "body": json.dumps({"bytes": size}).encode()})


async def _echo(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


async def _stream(receive: Any, send: Any) -> None:
    await _body_size(receive)
    await _begin(send, b"text/event-stream")
    for number in range(TOKENS):
        chunk = {"choices": [{"index": 0, "delta": {"content": f"word{number} "}}]}
        body = f"data: {json.dumps(chunk)}\n\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(TOKEN_SECONDS)
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _body_size(receive: Any) -> int:
    size, has_more = 0, True
    while has_more:
        message = await receive()
        size += len(message.get("body", b""))
        has_more = message.get("more_body", False)
    return size


async def _begin(send: Any, kind: bytes) -> None:
    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
    await send(start)
