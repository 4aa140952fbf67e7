"""The closed set of error codes of the agent's calls."""

from dataclasses import dataclass
from enum import StrEnum


class ContractErrorCode(StrEnum):
    """Why a call, a document or a node was refused. A code never changes its meaning."""

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
    NODE_FROZEN = "node_frozen"
    NODE_UNKNOWN = "node_unknown"
    REPLICA_UNKNOWN = "replica_unknown"
    FENCE_STALE = "fence_stale"
    OFFSET_MISMATCH = "offset_mismatch"
    # Of files and trees.
    FILE_UNKNOWN = "file_unknown"
    FILE_INCOMPLETE = "file_incomplete"
    TREE_UNKNOWN = "tree_unknown"
    HASH_MISMATCH = "hash_mismatch"
    STORED_LIMIT = "stored_limit"
    TOO_FREQUENT = "too_frequent"
    TLS_REQUIRED = "tls_required"
    UNAVAILABLE = "unavailable"


# HTTP status of each code. The portal responds with it; the agent decides by the code.
HTTP_STATUS: dict[ContractErrorCode, int] = {
    ContractErrorCode.MALFORMED: 400,
    ContractErrorCode.INVALID_FIELD: 400,
    ContractErrorCode.UNKNOWN_FIELD: 400,
    ContractErrorCode.MISSING_FIELD: 400,
    ContractErrorCode.TOO_LARGE: 413,
    ContractErrorCode.PROTOCOL_TOO_NEW: 426,
    ContractErrorCode.PROTOCOL_TOO_OLD: 426,
    ContractErrorCode.JOIN_TOKEN_INVALID: 401,
    ContractErrorCode.SIGNATURE_INVALID: 401,
    ContractErrorCode.CLOCK_SKEW: 401,
    ContractErrorCode.NONCE_REUSED: 401,
    ContractErrorCode.TOKEN_INVALID: 401,
    ContractErrorCode.EPOCH_STALE: 409,
    ContractErrorCode.NODE_RETIRED: 410,
    ContractErrorCode.NODE_FROZEN: 403,
    ContractErrorCode.NODE_UNKNOWN: 401,
    ContractErrorCode.REPLICA_UNKNOWN: 404,
    ContractErrorCode.FENCE_STALE: 409,
    ContractErrorCode.OFFSET_MISMATCH: 409,
    ContractErrorCode.FILE_UNKNOWN: 404,
    ContractErrorCode.FILE_INCOMPLETE: 409,
    ContractErrorCode.TREE_UNKNOWN: 404,
    ContractErrorCode.HASH_MISMATCH: 409,
    ContractErrorCode.STORED_LIMIT: 413,
    ContractErrorCode.TOO_FREQUENT: 429,
    ContractErrorCode.TLS_REQUIRED: 403,
    ContractErrorCode.UNAVAILABLE: 503,
}


@dataclass
class ContractError(Exception):
    """A refused call or document."""

    code: ContractErrorCode
    # For people: what is wrong and what to do.
    sentence: str
    # Dotted path of the field that it is about, or empty.
    field: str = ""
    # What the other side needs to continue, such as the expected log offset.
    extra: dict[str, int | str] | None = None

    def __str__(self) -> str:
        where = f" ({self.field})" if self.field else ""
        return f"{self.code}: {self.sentence}{where}"

    @property
    def status(self) -> int:
        return HTTP_STATUS[self.code]

    @property
    def retry_seconds(self) -> int:
        """Seconds after which the call may be made again; 0 if the refusal names none."""
        return int((self.extra or {}).get("retry_seconds", 0))

    def body(self) -> dict[str, object]:
        """The JSON body of the response to a refused call."""
        error = {"code": str(self.code), "sentence": self.sentence, "field": self.field}
        return {"error": error | (self.extra or {})}
