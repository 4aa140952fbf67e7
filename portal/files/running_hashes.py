"""SHA-256 of contents while they arrive, so that most need not be read again at their end.

Kept in this process alone and only while chunks follow each other here: whoever finds none reads
what is stored. Both are of the same bytes, as each object is compared with its CRC when it is read.
"""

import hashlib
import threading
from collections import OrderedDict

# Contents that arrive at the same time, in one web process.
MAX_CONTENTS = 256


class RunningHashes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By primary key of the content: how many bytes have been hashed.
        self._found: OrderedDict[int, tuple[int, hashlib._Hash]] = OrderedDict()

    def append(self, pk: int, offset: int, data: bytes | memoryview) -> None:
        """These bytes were counted. They are hashed if those before them were."""
        with self._lock:
            end, digest = self._found.pop(pk, (0, hashlib.sha256()))
        if end != offset:
            return
        digest.update(data)
        with self._lock:
            self._found[pk] = (offset + len(data), digest)
            while len(self._found) > MAX_CONTENTS:
                self._found.popitem(last=False)

    def take(self, pk: int, size: int) -> str:
        """The SHA-256 of all bytes; empty if it is not known here. It is forgotten with that."""
        with self._lock:
            end, digest = self._found.pop(pk, (-1, hashlib.sha256()))
        return digest.hexdigest() if end == size else ""


running_hashes = RunningHashes()
