"""What goes wrong with bytes outside the database. REST and pages show these like any refusal."""

from agents.contract.message import Message
from portal.error_codes import ERROR_KINDS, ErrorCode
from portal.errors import Refused

RETRY_SECONDS = 5


class StoreError(Refused):
    """Bytes could not be stored or read; `detail` is for the log and for admins."""

    def __init__(self, code: ErrorCode, message: Message | str, detail: str) -> None:
        is_passing = ERROR_KINDS[code].status == 503
        super().__init__(code, message, retry_seconds=RETRY_SECONDS if is_passing else 0)
        self.detail = detail

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.detail})"


class StoreUnavailable(StoreError):
    """The store does not answer, refuses, or is full: the same call may work later."""

    def __init__(self, detail: str) -> None:
        sentence = (
            "The log store does not answer. Nothing is lost: what the job writes is kept on its "
            "node and appears here when the store is back"
        )
        super().__init__(ErrorCode.STORE_UNAVAILABLE, sentence, detail)


class ObjectMissing(StoreError):
    """The store answers that it has no such object."""

    def __init__(self, name: str) -> None:
        sentence = "The store has lost a part of this log. An admin has to restore it"
        super().__init__(ErrorCode.STORE_OBJECT_MISSING, sentence, name)


class SizeMismatch(StoreError):
    """The store has other bytes than the database counts."""

    def __init__(self, detail: str) -> None:
        sentence = (
            "The stored log does not agree with the database: bytes that arrived are missing or "
            "changed in the store. An admin has to restore them"
        )
        super().__init__(ErrorCode.STORE_MISMATCH, sentence, detail)


class OtherHost(StoreError):
    """The bytes lie in a folder that this process does not have."""

    def __init__(self, host: str, location: str) -> None:
        sentence = (
            "This log is on the disk of another web host, %(host)s. Web hosts need one shared "
            "folder or an S3-compatible store: tell an admin"
        )
        super().__init__(ErrorCode.STORE_OTHER_HOST, Message(sentence, host=host), location)
