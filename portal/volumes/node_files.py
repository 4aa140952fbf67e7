"""Small JSON files of volumes, asked of a node that offers the volume's root.

The portal says for which project; the node decides what its jobs may read.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from asgiref.sync import async_to_sync

from agents.contract.tunnel import REFUSAL_SENTENCES, StreamRefusal
from agents.contract.volume_files import (
    MAX_VOLUME_FILE_BYTES,
    VolumeFileTarget,
    volume_file_problem,
)
from portal.accounts.models import Project
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import release_connection
from portal.tunnel.streams import PortStream, StreamRefused, is_target_short, node_stream_open
from portal.volumes.models import Volume
from portal.volumes.selectors import node_roots

# Nodes that are asked, one after another, and how long that may take together.
MAX_NODES, TOTAL_SECONDS = 3, 15.0
# What a node refuses because of the file itself: another node says the same.
FILE_REFUSALS = (
    StreamRefusal.FILE_MISSING,
    StreamRefusal.FILE_FORBIDDEN,
    StreamRefusal.NOT_A_FILE,
    StreamRefusal.FILE_TOO_LARGE,
)


def volume_file_content(volume: Volume, project: Project, path: str) -> bytes:
    """At most MAX_VOLUME_FILE_BYTES of the file at that path below the volume, if jobs of the
    project may read it. `project`: one that has the volume. Raises Refused."""
    if problem := volume_file_problem(path):
        raise Refused(ErrorCode.INVALID, problem)
    target = VolumeFileTarget(
        project=project.slug, root=volume.root, subpath=volume.subpath, volume_file=path
    )
    if not is_target_short(target):
        raise Refused(
            ErrorCode.INVALID, "This path is too long to be asked for: send the file's text instead"
        )
    offers = [each for each in node_roots() if each.root == volume.root and each.is_online]
    folders = [each.node_id for each in offers if not each.driver]
    if offers and not folders:
        raise Refused(
            ErrorCode.INVALID,
            "A driver of the nodes' engines keeps this volume, and only jobs can read it: send the "
            "file's text instead",
        )
    if not folders:
        raise Refused(ErrorCode.INVALID, "No node that offers this volume is connected now")
    content: bytes = async_to_sync(_asked)(folders[:MAX_NODES], target)
    return content


async def _asked(nodes: Sequence[UUID], target: VolumeFileTarget) -> bytes:
    """Raises Refused."""
    await release_connection()
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            for node in nodes:
                try:
                    return await _content(await node_stream_open(node, target))
                except StreamRefused as refused:
                    if refused.code in FILE_REFUSALS:
                        sentence = REFUSAL_SENTENCES[refused.code]
                        raise Refused(ErrorCode.INVALID, sentence) from refused
                except ConnectionError:
                    # The tunnel ended; another node may have it as well.
                    continue
    except TimeoutError:
        pass
    raise Refused(
        ErrorCode.INVALID,
        "No node that offers this volume answered: it is away, its file system does not answer, or "
        "its agent is older than the portal. Try again, or send the file's text instead",
    )


async def _content(stream: PortStream) -> bytes:
    """Raises StreamRefused, ConnectionError."""
    content = bytearray()
    try:
        await stream.end()
        while piece := await stream.read():
            content += piece
            if len(content) > MAX_VOLUME_FILE_BYTES:
                raise Refused(ErrorCode.INVALID, REFUSAL_SENTENCES[StreamRefusal.FILE_TOO_LARGE])
    finally:
        # No effect on one that was read to its end.
        stream.abort()
    return bytes(content)
