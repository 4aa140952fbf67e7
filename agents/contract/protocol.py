"""The protocol of documents and calls: a number that grows when the other side must be updated."""

from typing import Any

from agents.contract.errors import ContractError, ContractErrorCode

PROTOCOL = 1
OLDEST_PROTOCOL = 1


def check_protocol(protocol: Any) -> None:
    """Refuse a document of an unsupported protocol before the rest of it is read."""
    if not isinstance(protocol, int) or isinstance(protocol, bool):
        raise ContractError(ContractErrorCode.INVALID_FIELD, "expected int", "protocol")
    if protocol > PROTOCOL:
        sentence = f"protocol {protocol} is newer than {PROTOCOL}: update this side first"
        raise ContractError(ContractErrorCode.PROTOCOL_TOO_NEW, sentence, "protocol")
    if protocol < OLDEST_PROTOCOL:
        sentence = f"protocol {protocol} is no longer supported: update the other side"
        raise ContractError(ContractErrorCode.PROTOCOL_TOO_OLD, sentence, "protocol")
