"""The portal's application, and beside it `PUT /plain`, which writes its body to a file: what an
upload through this web server can be at best."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from portal.asgi import application as portal


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope.get("path") != "/plain":
        await portal(scope, receive, send)
        return
    path = Path(os.environ["TESSERA_VAR"]) / "plain"
    with path.open("wb") as file:
        more = True
        while more:
            message = await receive()
            await asyncio.to_thread(file.write, message.get("body", b""))
            more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})
