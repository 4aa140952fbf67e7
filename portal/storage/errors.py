"""What goes wrong with bytes outside the database. REST shows these like any refusal."""

from portal.errors import Refused

RETRY_SECONDS = 5


class StoreError(Refused):
    """Bytes could not be stored or read; `detail` is for the log and for admins."""

    def __init__(self, code: str, sentence: str, detail: str = "", status: int = 503) -> None:
        super().__init__(code, sentence, "", status, retry_seconds=RETRY_SECONDS * (status == 503))
        self.detail = detail

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.detail})" if self.detail else super().__str__()


class StoreUnavailable(StoreError):
    """The store does not answer, refuses, or is full: the same call may work later."""

    def __init__(self, detail: str) -> None:
        sentence = "the log store does not answer: nothing is lost, try again later"
        super().__init__("store_unavailable", sentence, detail)


class ObjectMissing(StoreError):
    """The store answers that it has no such object."""

    def __init__(self, name: str) -> None:
        sentence = "the store has lost a part of these bytes: ask an admin to restore it"
        super().__init__("store_object_missing", sentence, name, status=500)


class SizeMismatch(StoreError):
    """The store has other bytes than the database counts."""

    def __init__(self, detail: str) -> None:
        sentence = "the stored bytes do not agree with the database: ask an admin to restore them"
        super().__init__("store_mismatch", sentence, detail, status=500)


class OtherHost(StoreError):
    """The bytes lie in a folder that this process does not have."""

    def __init__(self, host: str, location: str) -> None:
        sentence = (
            f"these bytes are on another host's disk ({host}): web hosts need one shared "
            "TESSERA_VAR, or an S3-compatible store"
        )
        super().__init__("store_other_host", sentence, location)
        self.host = host
