"""The door: a caller is known by its header before its body is read, and calls have a rate.

Everything here belongs to one process and runs on its event loop, so that a refused call costs
neither a thread nor, from a stranger who has called too often, a read of the database.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.http import caller_address
from portal.agentapi.threads import RunInThread, run_in_thread
from portal.asgi_scope import Scope, header
from portal.inventory.credentials import bearer_authenticate, claimed_node_id, digest_of
from portal.token_buckets import BucketRate, TokenBuckets

# Refused calls with a token, from one address: each costs a read by primary key. A thousand nodes
# behind one address whose tokens all ended (a restored database) are through in 20 s.
REFUSED_TOKENS = BucketRate(burst=200, per_second=50)
# Refused enrolments and hellos from one address: each costs a row lock, a hello a signature too.
REFUSED_GREETINGS = BucketRate(burst=40, per_second=5)
# Sessions of one node. An agent whose portal comes and goes says hello about 15 times in its first
# minute, then 4 times a minute.
HELLOS = BucketRate(burst=20, per_second=0.2)
# Reports and samples of one node. An agent sends one for each change that it sees.
REPORTS = BucketRate(burst=60, per_second=20)
# KiB of reports and samples of one node. The largest report is 1 MiB, and reading it holds the
# interpreter's lock, and so everybody else, for some 20 ms.
REPORTED_KIB = BucketRate(burst=8_192, per_second=1_024)
# Log chunks of one node: at 256 KiB each, more than its network carries for long.
LOG_CHUNKS = BucketRate(burst=400, per_second=100)
# Calls of one node with metrics of jobs. An agent makes one a second at most.
METRICS_CALLS = BucketRate(burst=20, per_second=2)
# Calls with files of one node, of which each has at most 4 MiB: a folder of many small files.
FILE_CALLS = BucketRate(burst=400, per_second=200)
# Tunnels that one node opens. An agent whose portal comes and goes dials as often as it says hello.
TUNNELS = BucketRate(burst=20, per_second=0.5)
# Greetings and unknown tokens of one address that are looked at together. A thousand nodes behind
# one address come back at once when the portal was restarted.
MAX_CALLS_INSIDE = 1_000
# As many nodes are remembered as there are buckets.
MAX_NODES = 20_000
# So long, the body of a call is read without asking the database for its token first. After that
# time at the latest, a node that was revoked or retired is refused before its body is read.
READ_AGAIN_SECONDS = 10


@dataclass(frozen=True, slots=True)
class _Proof:
    digest: str
    read_at: float
    """By the door's clock, when the database had it."""


class Door:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.reports = TokenBuckets(REPORTS, clock=clock)
        self.reported_kib = TokenBuckets(REPORTED_KIB, clock=clock)
        self.log_chunks = TokenBuckets(LOG_CHUNKS, clock=clock)
        self.metrics_calls = TokenBuckets(METRICS_CALLS, clock=clock)
        self.file_calls = TokenBuckets(FILE_CALLS, clock=clock)
        self.tunnels = TokenBuckets(TUNNELS, clock=clock)
        self._hellos = TokenBuckets(HELLOS, clock=clock)
        self._refused_tokens = TokenBuckets(REFUSED_TOKENS, clock=clock)
        self._refused_greetings = TokenBuckets(REFUSED_GREETINGS, clock=clock)
        self._clock = clock
        # Calls of an address that are not answered yet and may be refused.
        self._inside: Counter[Hashable] = Counter()
        # By node, the token that it proved itself with.
        self._proven: dict[UUID, _Proof] = {}

    async def caller(
        self, scope: Scope, calls: TokenBuckets, run: RunInThread = run_in_thread
    ) -> UUID:
        """The node that makes the call, from its header alone. Raises ContractError.

        `run`: in which threads its token is read. One that was read a moment ago is not read again:
        the call itself authenticates once more where it reads or writes rows.

        Refused calls count against the address that they come from. A token that was accepted
        before is not held up by what others at its address do.
        """
        authorization = header(scope, "authorization")
        proof = self._proof(authorization)
        if proof and self._clock() - proof.read_at < READ_AGAIN_SECONDS:
            return self._admitted(claimed_node_id(authorization), calls)
        with self._counted(self._refused_tokens, caller_address(scope), authorization):
            node_id: UUID = await run(bearer_authenticate, authorization=authorization)
        self._remember(node_id, authorization)
        return self._admitted(node_id, calls)

    def read_again(self, authorization: str) -> None:
        """The token was refused behind the door: the next call with it is one of a stranger."""
        if self._proof(authorization):
            # The node stays one that has proven itself, with no token of ours.
            self._proven[claimed_node_id(authorization)] = _Proof("", 0)

    @contextmanager
    def enrolment(self, scope: Scope) -> Iterator[None]:
        """Count it against its address if it is refused inside. Raises too_frequent."""
        with self._charged(self._refused_greetings, caller_address(scope)):
            yield

    @contextmanager
    def hello(self, scope: Scope, node_id: str) -> Iterator[None]:
        """The same, and count it against the node if it succeeds.

        A refused hello for a node that has proven itself here counts against that node, so that
        strangers at its address, who do not know its id, cannot keep it out.
        """
        key = _uuid(node_id)
        # Only signed hellos count here: strangers take none of them.
        if key and (wait := self._hellos.wait_seconds(key)):
            raise too_frequent(wait)
        blamed = key if key in self._proven else caller_address(scope)
        with self._charged(self._refused_greetings, blamed):
            yield
        self._hellos.take(key)

    def refused_greeting(self, scope: Scope) -> None:
        """Count a body that is no enrolment and no hello. Raises too_frequent."""
        if wait := self._refused_greetings.take(caller_address(scope)):
            raise too_frequent(wait)

    @contextmanager
    def _counted(self, refused: TokenBuckets, address: str, authorization: str) -> Iterator[None]:
        if not self._proof(authorization):
            with self._charged(refused, address):
                yield
            return
        try:
            yield
        except ContractError:
            # It has ended: from now on its bearer is a stranger again.
            self.read_again(authorization)
            refused.take(address)
            raise

    @contextmanager
    def _charged(self, refused: TokenBuckets, key: Hashable) -> Iterator[None]:
        """Count it if it is refused inside. Calls that are refused at the same time, more than the
        bucket held, are owed: the next ones wait for as long."""
        if wait := refused.wait_seconds(key):
            raise too_frequent(wait)
        if self._inside[key] >= MAX_CALLS_INSIDE:
            raise too_frequent(1)
        self._inside[key] += 1
        try:
            yield
        except ContractError:
            refused.owe(key)
            raise
        finally:
            self._inside[key] -= 1
            if not self._inside[key]:
                del self._inside[key]

    @staticmethod
    def _admitted(node_id: UUID, calls: TokenBuckets) -> UUID:
        if wait := calls.take(node_id):
            raise too_frequent(wait)
        return node_id

    def _proof(self, authorization: str) -> "_Proof | None":
        """Of a token that was accepted here."""
        try:
            proof = self._proven.get(claimed_node_id(authorization))
        except ContractError:
            return None
        return proof if proof and proof.digest == digest_of(authorization) else None

    def _remember(self, node_id: UUID, authorization: str) -> None:
        self._proven.pop(node_id, None)
        self._proven[node_id] = _Proof(digest_of(authorization), self._clock())
        while len(self._proven) > MAX_NODES:
            del self._proven[next(iter(self._proven))]


@cache
def door() -> Door:
    """The door of this process."""
    return Door()


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def too_frequent(seconds: float) -> ContractError:
    wait = max(1, math.ceil(seconds))
    sentence = f"too many calls: try again in {wait} s"
    return ContractError(ContractErrorCode.TOO_FREQUENT, sentence, "", {"retry_seconds": wait})
