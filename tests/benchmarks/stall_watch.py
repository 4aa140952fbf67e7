"""The portal's application with a clock beside it: how long its event loop stood still at most.

`GET /stall` gives the longest time since the last such call, in milliseconds.
"""

from __future__ import annotations

import asyncio
from typing import Any

from portal.asgi import application as portal

TICK_SECONDS = 0.002
_watch: dict[str, Any] = {"longest": 0.0, "task": None}


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if _watch["task"] is None:
        _watch["task"] = asyncio.get_running_loop().create_task(_tick())
    if scope.get("path") != "/stall":
        await portal(scope, receive, send)
        return
    longest, _watch["longest"] = _watch["longest"], 0.0
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{longest * 1000:.1f}".encode()})


async def _tick() -> None:
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        await asyncio.sleep(TICK_SECONDS)
        _watch["longest"] = max(_watch["longest"], loop.time() - begun - TICK_SECONDS)
