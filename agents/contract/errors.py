"""The closed set of things that can be wrong on the wire, each with a sentence of what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Why a call, a document or a node was refused. Codes never change their meaning."""

    MALFORMED = "malformed"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    TOO_LARGE = "too_large"
    PROTOCOL_TOO_NEW = "protocol_too_new"
    PROTOCOL_TOO_OLD = "protocol_too_old"
    JOIN_TOKEN_INVALID = "join_token_invalid"  # noqa: S105 - a code, not a secret
    SIGNATURE_INVALID = "signature_invalid"
    CLOCK_SKEW = "clock_skew"
    NONCE_REUSED = "nonce_reused"
    TOKEN_INVALID = "token_invalid"  # noqa: S105 - a code, not a secret
    EPOCH_STALE = "epoch_stale"
    NODE_RETIRED = "node_retired"
    NODE_UNKNOWN = "node_unknown"
    REPLICA_UNKNOWN = "replica_unknown"
    FENCE_STALE = "fence_stale"
    OFFSET_MISMATCH = "offset_mismatch"
    TOO_FREQUENT = "too_frequent"
    UNAVAILABLE = "unavailable"


# HTTP status of each code, for both sides: the portal answers with it, the agent decides by it.
HTTP_STATUS: dict[Code, int] = {
    Code.MALFORMED: 400,
    Code.INVALID_FIELD: 400,
    Code.UNKNOWN_FIELD: 400,
    Code.MISSING_FIELD: 400,
    Code.TOO_LARGE: 413,
    Code.PROTOCOL_TOO_NEW: 426,
    Code.PROTOCOL_TOO_OLD: 426,
    Code.JOIN_TOKEN_INVALID: 401,
    Code.SIGNATURE_INVALID: 401,
    Code.CLOCK_SKEW: 401,
    Code.NONCE_REUSED: 401,
    Code.TOKEN_INVALID: 401,
    Code.EPOCH_STALE: 409,
    Code.NODE_RETIRED: 410,
    Code.NODE_UNKNOWN: 401,
    Code.REPLICA_UNKNOWN: 404,
    Code.FENCE_STALE: 409,
    Code.OFFSET_MISMATCH: 409,
    Code.TOO_FREQUENT: 429,
    Code.UNAVAILABLE: 503,
}


@dataclass
class ContractError(Exception):
    """A refusal: its code, a sentence for people, and the field it is about (dotted path or empty).

    `extra` carries what the other side needs to go on, such as the expected log offset.
    """

    code: Code
    sentence: str
    field: str = ""
    extra: dict[str, int | str] | None = None

    def __str__(self) -> str:
        where = f" ({self.field})" if self.field else ""
        return f"{self.code}: {self.sentence}{where}"

    @property
    def status(self) -> int:
        return HTTP_STATUS[self.code]

    def body(self) -> dict[str, object]:
        """The JSON body that answers a refused call."""
        error = {"code": str(self.code), "sentence": self.sentence, "field": self.field}
        return {"error": error | (self.extra or {})}
