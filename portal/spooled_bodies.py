"""Where the body of a request lies while it is read: a large one in TESSERA_SPOOL_FOLDER."""

from tempfile import SpooledTemporaryFile
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler


def spool_folder() -> str | None:
    """None: the system's folder of temporary files."""
    return str(settings.PLATFORM.spool_folder) or None


class SpoolingHandler(ASGIHandler):
    """Django's handler, whose own folder for large bodies cannot be chosen."""

    async def read_body(self, receive: Any) -> Any:
        body = SpooledTemporaryFile(  # noqa: SIM115 - the handler closes it with the request
            max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE,
            mode="w+b",
            dir=spool_folder(),
        )
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestAborted
                body.write(message.get("body", b""))
                if not message.get("more_body", False):
                    break
        except BaseException:
            body.close()
            raise
        body.seek(0)
        return body
