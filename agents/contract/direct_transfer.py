"""Bytes of contents between a node and the store itself, by URLs that the portal signs.

Offered in `HelloResponse.direct_transfer`. The portal decides key, size and time of every URL; what
a node has sent counts once the portal has read it. Decision 28 says why.
"""

from dataclasses import dataclass, field

from agents.contract.codec import rule
from agents.contract.file_transfer import MAX_FILE_BYTES, MAX_FILE_CHUNK_BYTES
from agents.contract.protocol import PROTOCOL

# POST PartsRequest: to send; GET ?replica=&offset=: to fetch.
PARTS_PATH = "/agent/v1/files/{sha256}/parts"

# Of all parts but the last of a content, which is smaller. The first part of a content always goes
# through the portal: with it, the portal makes room for all of them.
PART_BYTES = MAX_FILE_CHUNK_BYTES
# Of one answer.
MAX_PARTS = 16
# A signature, and the token of temporary credentials of the store.
MAX_URL_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class ContentPart:
    """Bytes of a content that are one object of the store."""

    offset: int = field(metadata=rule(minimum=0, maximum=MAX_FILE_BYTES))
    size: int = field(metadata=rule(minimum=1, maximum=PART_BYTES))
    # For one PUT of exactly these bytes, or for a GET; a secret, for minutes.
    url: str = field(metadata=rule(max_length=MAX_URL_BYTES))


@dataclass(frozen=True, slots=True)
class PartsRequest:
    """The parts of a content up to `end` are at the store: count them, and name the next ones."""

    replica: str = field(metadata=rule(max_length=64))
    size: int = field(metadata=rule(minimum=0, maximum=MAX_FILE_BYTES))
    end: int = field(metadata=rule(minimum=0, maximum=MAX_FILE_BYTES))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class SendPartsResponse:
    """What the portal has of the content, as in `FileProgress`, and the next parts to send; none
    where the rest has to go through the portal."""

    received: int
    complete: bool
    parts: tuple[ContentPart, ...] = field(metadata=rule(max_length=MAX_PARTS))


@dataclass(frozen=True, slots=True)
class FetchPartsResponse:
    """The parts from the offset on; none where they have to be fetched through the portal."""

    parts: tuple[ContentPart, ...] = field(metadata=rule(max_length=MAX_PARTS))
