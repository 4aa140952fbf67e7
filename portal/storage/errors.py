"""What goes wrong with bytes outside the database. REST and pages show these like any refusal."""

from agents.contract.message import Message
from portal.errors import Refused

RETRY_SECONDS = 5


class StoreError(Refused):
    """Bytes could not be stored or read; `detail` is for the log and for admins."""

    def __init__(self, code: str, message: Message | str, detail: str, status: int = 503) -> None:
        super().__init__(code, message, "", status, RETRY_SECONDS if status == 503 else 0)
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
        super().__init__("store_unavailable", sentence, detail)


class ObjectMissing(StoreError):
    """The store answers that it has no such object."""

    def __init__(self, name: str) -> None:
        sentence = "The store has lost a part of this log. An admin has to restore it"
        super().__init__("store_object_missing", sentence, name, status=500)


class SizeMismatch(StoreError):
    """The store has other bytes than the database counts."""

    def __init__(self, detail: str) -> None:
        sentence = (
            "The stored log does not agree with the database: bytes that arrived are missing or "
            "changed in the store. An admin has to restore them"
        )
        super().__init__("store_mismatch", sentence, detail, status=500)


class OtherHost(StoreError):
    """The bytes lie in a folder that this process does not have."""

    def __init__(self, host: str, location: str) -> None:
        sentence = (
            "This log is on the disk of another web host, %(host)s. Web hosts need one shared "
            "folder or an S3-compatible store: tell an admin"
        )
        super().__init__("store_other_host", Message(sentence, host=host), location)
