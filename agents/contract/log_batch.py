"""New bytes of several logs of one node, in one call.

The body is one line of JSON, a `LogBatch`, and then the bytes of its chunks in their order.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.contract.calls import MAX_LOG_CHUNK_BYTES
from agents.contract.codec import decode, encode, rule
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.protocol import PROTOCOL, check_protocol

# Of all chunks together. The body stays below the 1 MiB that common proxies allow.
MAX_LOG_BATCH_BYTES = 2 * MAX_LOG_CHUNK_BYTES
MAX_LOG_BATCH_CHUNKS = 256
# Of the line, with room for 200 bytes a chunk.
MAX_LINE_BYTES = MAX_LOG_BATCH_CHUNKS * 200
MAX_LOG_BATCH_BODY_BYTES = MAX_LOG_BATCH_BYTES + MAX_LINE_BYTES


@dataclass(frozen=True, slots=True)
class LogChunkPlace:
    """Where the chunk belongs: in the log of a replica of this node, from `offset` on."""

    replica: str = field(metadata=rule(max_length=64))
    offset: int = field(metadata=rule(minimum=0, maximum=2**59))
    size: int = field(metadata=rule(minimum=1, maximum=MAX_LOG_CHUNK_BYTES))


@dataclass(frozen=True, slots=True)
class LogBatch:
    """The line before the bytes; each replica once."""

    chunks: tuple[LogChunkPlace, ...] = field(metadata=rule(max_length=MAX_LOG_BATCH_CHUNKS))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class NewLogBytes:
    """Bytes of a replica's log from `offset` on."""

    replica: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LogChunkResult:
    """What became of one chunk; the others of its call do not depend on it."""

    replica: str
    # Where the next chunk of this log starts; 0 if only the agent knows.
    next_offset: int = 0
    # Of the refusal, as a call with this chunk alone gets it; empty if there is none.
    code: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class LogBatchResponse:
    """One result for each chunk, in their order."""

    results: tuple[LogChunkResult, ...]


def pack_logs(chunks: Sequence[NewLogBytes]) -> bytes:
    """The body of a call with these chunks."""
    places = (LogChunkPlace(chunk.replica, chunk.offset, len(chunk.data)) for chunk in chunks)
    line = json.dumps(encode(LogBatch(tuple(places))), separators=(",", ":")).encode()
    return b"".join((line, b"\n", *(chunk.data for chunk in chunks)))


def unpack_logs(body: bytes) -> tuple[NewLogBytes, ...]:
    """The chunks of a body. Raises ContractError if it is none."""
    line, separator, data = body.partition(b"\n")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _malformed("a line of JSON comes first") from None
    if isinstance(found, dict):
        check_protocol(found.get("protocol", PROTOCOL))
    batch = decode(LogBatch, found)
    if not separator or sum(place.size for place in batch.chunks) != len(data):
        raise _malformed("the sizes of the chunks are not those of the bytes behind the line")
    if len({place.replica for place in batch.chunks}) != len(batch.chunks):
        raise _malformed("each replica may be there once")
    chunks, start = [], 0
    for place in batch.chunks:
        end = start + place.size
        chunks.append(NewLogBytes(place.replica, place.offset, data[start:end]))
        start = end
    return tuple(chunks)


def _malformed(sentence: str) -> ContractError:
    return ContractError(ContractErrorCode.MALFORMED, sentence)
