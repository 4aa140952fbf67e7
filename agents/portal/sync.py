"""The agent's session with the portal: enrol, hello, then one long-polling sync call after another.

A change of the node is sent at once in a second call; the portal then answers the older one. Logs
are shipped concurrently, by offset.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable

from agents.contract.calls import MAX_LONG_POLL_SECONDS, EventType, SyncRequest
from agents.contract.documents import DesiredDocument, ObservedDocument, ReplicaState, digest
from agents.contract.errors import ContractError, ContractErrorCode
from agents.job_secrets.delivery import ReplicaSecrets, without_secrets
from agents.loop.node import TICK_SECONDS, NodeLoop
from agents.portal.client import PortalBarred, PortalClient, PortalUnreachable
from agents.portal.log_shipping import LogShipping
from agents.portal.older_portal import FieldPath, unknown_field, without_fields
from agents.runtime.base import Runtime
from agents.state.identity import AgentIdentity
from agents.state.journal import Journal

MAX_CALLS = 3
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 15.0
# So a pause is about half as long as the portal has been away: an agent comes back soon after it.
PAUSE_GROWTH = 1.5
# The longest pause that the portal can demand of an agent, in seconds.
MAX_RETRY_SECONDS = 60.0
# The part of a token's life after which it is renewed, drawn anew each time: no call is refused for
# the token's age, and agents that began together do not say hello together.
RENEWED_BETWEEN = (0.6, 0.9)
# How often a growing log is shipped.
SHIP_SECONDS = 0.25
# A replica in one of these states may have a log.
WITH_LOGS = (ReplicaState.RUNNING, ReplicaState.EXITED, ReplicaState.FAILED)

log = logging.getLogger("agents.portal.sync")


class NodeRetired(Exception):
    """The portal has retired this node: there is nothing left to do."""


async def enrol(client: PortalClient, identity: AgentIdentity, name: str, join_token: str) -> None:
    """Enrol, once in a node's life. Raises ContractError if the token is invalid."""
    if identity.node_id:
        return
    if not join_token:
        raise SystemExit("This node is not enrolled: set TESSERA_JOIN_TOKEN to a join token.")
    async for pause in retry_pauses():
        try:
            answer = await client.enrol(identity.enrol_request(name, join_token))
        except PortalUnreachable as away:
            log_unreachable(away)
            await asyncio.sleep(pause)
        except ContractError as refused:
            if refused.code is not ContractErrorCode.TOO_FREQUENT:
                raise
            await asyncio.sleep(_retry_pause(refused))
        else:
            identity.record_enrolment(answer.node_id)
            return


def log_unreachable(away: PortalUnreachable) -> None:
    """A portal that is away comes back; what bars the way to it remains until somebody acts."""
    if isinstance(away, PortalBarred):
        log.error("portal_barred", extra={"why": str(away)})
    else:
        log.info("portal_away", extra={"why": str(away)})


class PortalSession:
    """The agent's side. Set `node` before `run`; `report` may be called from any thread."""

    def __init__(
        self,
        client: PortalClient,
        identity: AgentIdentity,
        journal: Journal,
        runtime: Runtime,
        secrets: ReplicaSecrets | None = None,
    ) -> None:
        self.client = client
        self.identity = identity
        self.journal = journal
        self.runtime = runtime
        self.node: NodeLoop | None = None
        self._document: ObservedDocument | None = None
        self._acked_hash = ""
        # Fields that are later than the portal.
        self._unknown_fields: frozenset[FieldPath] = frozenset()
        self._full = True
        self._skew_ms = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._accept_lock = asyncio.Lock()
        self._has_greeted = asyncio.Event()
        self.logs = LogShipping(client, journal, runtime, self._wake, secrets or without_secrets())
        # Replicas that run or have ended, as last reported, with their states.
        self._states: frozenset[tuple[str, ReplicaState]] = frozenset()
        self._has_new_logs = asyncio.Event()

    def report(self, document: ObservedDocument) -> None:
        """The node has changed: send this document now."""
        self._document = document
        states = frozenset((r.id, r.state) for r in document.replicas if r.state in WITH_LOGS)
        has_new, self._states = bool(states - self._states), states
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed: the agent is ending
                self._loop.call_soon_threadsafe(self._changed.set)
                if has_new:
                    self._loop.call_soon_threadsafe(self._has_new_logs.set)

    async def run(self) -> None:
        """One session after another. Ends by cancellation or NodeRetired only."""
        self._loop = asyncio.get_running_loop()
        shipping = asyncio.create_task(self._ship_forever())
        try:
            async for pause in retry_pauses():
                try:
                    await self._session()
                except PortalUnreachable as away:
                    log_unreachable(away)
                except ContractError as refused:
                    self._refused(refused)
                    if refused.code is ContractErrorCode.TOO_FREQUENT:
                        pause = _retry_pause(refused)
                await asyncio.sleep(pause)
        finally:
            shipping.cancel()

    def _refused(self, refused: ContractError) -> None:
        log.warning("refused", extra={"code": str(refused.code), "why": refused.sentence})
        if refused.code is ContractErrorCode.NODE_RETIRED:
            raise NodeRetired(refused.sentence)
        if refused.code is ContractErrorCode.CLOCK_SKEW and refused.extra:
            server_ms = int(refused.extra.get("server_time_ms", 0))
            self._skew_ms = server_ms - time.time_ns() // 1_000_000

    async def _session(self) -> None:
        """Hello and sync until an error. The token is renewed while it lives, by another hello."""
        token_seconds = await self._hello()
        self.journal.record_event(EventType.AGENT_STARTED, "agent in contact")
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(renewal_seconds(token_seconds)):
                    await self._sync_forever()
            token_seconds = await self._hello()

    async def _hello(self) -> int:
        """Seconds that the token lives."""
        answer = await self.client.hello(self.identity.hello_request(skew_ms=self._skew_ms))
        self.journal.skip_to(answer.acked_seq)
        self._full = True
        # It may be another portal than before, or updated.
        self._unknown_fields, self.logs.sends_each_alone = frozenset(), False
        self._has_greeted.set()
        return answer.token_seconds

    async def _sync_forever(self) -> None:
        """Keep one call open; open another at once when the node changes."""
        calls: set[asyncio.Task[None]] = set()
        news = asyncio.create_task(self._changed.wait())
        try:
            while True:
                if not calls or news.done():
                    if news.done():
                        self._changed.clear()
                        news = asyncio.create_task(self._changed.wait())
                    calls.add(asyncio.create_task(self._sync()))
                waiting = calls if len(calls) >= MAX_CALLS else {*calls, news}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for call in done & calls:
                    calls.discard(call)
                    call.result()
        finally:
            for task in {*calls, news}:
                task.cancel()
            await asyncio.gather(*calls, news, return_exceptions=True)

    async def _sync(self) -> None:
        node, document = self._ready()
        observed_hash = digest(document)
        full = self._full or observed_hash != self._acked_hash
        sent_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        applied = node.desired.revision
        self._full = False
        self._acked_hash = observed_hash
        request = SyncRequest(
            epoch=self.client.epoch,
            applied_revision=applied,
            observed_hash=observed_hash,
            observed=document if full else None,
            events=self.journal.unsent_events(),
            hold_seconds=MAX_LONG_POLL_SECONDS,
        )
        # If it fails, hello comes next, and the document is sent again.
        try:
            answer = await self.client.sync(request)
        except ContractError as refused:
            unknown = unknown_field(refused, document)
            if refused.code is not ContractErrorCode.TOO_FREQUENT and unknown is None:
                raise
            # The session goes on: a hello would only be one more call.
            self._full |= full
            if unknown:
                log.info("portal_older", extra={"field": ".".join(unknown)})
                self._unknown_fields |= {unknown}
                self._changed.set()
            else:
                await asyncio.sleep(_retry_pause(refused))
            return
        self.journal.acknowledge_events(answer.acked_seq)
        self._full |= answer.full_required
        node.action_log.learn(answer.origins)
        if answer.desired is not None:
            await self._accept(node, answer.desired, applied)
        node.renew_lease(sent_at + answer.lease_seconds)

    async def _accept(self, node: NodeLoop, desired: DesiredDocument, applied: int) -> None:
        """Accept it, unless the response to a later call has brought a newer document already.

        `applied`: the revision when the call was sent; only a restored portal goes below it.
        """
        async with self._accept_lock:
            current = node.desired.revision
            is_overtaken = current != applied and desired.revision < current
            if desired.revision != current and not is_overtaken:
                accepting = asyncio.ensure_future(asyncio.to_thread(node.accept, desired))
                try:
                    await asyncio.shield(accepting)
                except asyncio.CancelledError:
                    # A thread goes on: it must not overtake a document of the next session.
                    await accepting
                    raise

    def _ready(self) -> tuple[NodeLoop, ObservedDocument]:
        if self.node is None or self._document is None:
            raise RuntimeError("the node has no observed document yet")
        return self.node, without_fields(self._document, self._unknown_fields)

    async def _ship_forever(self) -> None:
        """From the first hello on, at a steady pace while there are logs; at once while there is
        more to ship, and when a replica starts or ends: its devices wait for the end of its log."""
        await self._has_greeted.wait()
        while True:
            pause = SHIP_SECONDS
            self._has_new_logs.clear()
            try:
                if await self.logs.ship():
                    pause = 0
                elif not self.logs.has_logs:
                    pause = TICK_SECONDS
            except PortalUnreachable:
                await asyncio.sleep(SHIP_SECONDS + MIN_PAUSE_SECONDS)
            except ContractError as refused:
                log.info("log_refused", extra={"code": str(refused.code)})
                await asyncio.sleep(SHIP_SECONDS + _retry_pause(refused))
            except Exception:
                # Devices are only released once logs are shipped, so shipping must go on.
                log.exception("shipping_failed")
                await asyncio.sleep(1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._has_new_logs.wait()

    def _wake(self) -> None:
        """Replicas that have ended and are shipped may be removed."""
        if self.node is not None:
            self.node.wake()


def renewal_seconds(token_seconds: float) -> float:
    """Until a token that lives so long is renewed: 60 to 90 % of that, or of a second if less."""
    return max(token_seconds, 1) * random.uniform(*RENEWED_BETWEEN)  # noqa: S311 - no secret


def _retry_pause(refused: ContractError) -> float:
    """Seconds until the next call, with jitter: as the refusal names them, between 1 and
    MAX_RETRY_SECONDS."""
    return min(max(refused.retry_seconds, 1.0), MAX_RETRY_SECONDS) * random.uniform(1, 1.5)  # noqa: S311 - no secret


async def retry_pauses(clock: Callable[[], float] = time.monotonic) -> AsyncIterator[float]:
    """Growing, jittered pauses in seconds; they start small again after a minute without an
    error."""
    pause, last = MIN_PAUSE_SECONDS, clock()
    while True:
        yield pause * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        calm = clock() - last > 60
        pause = MIN_PAUSE_SECONDS if calm else min(pause * PAUSE_GROWTH, MAX_PAUSE_SECONDS)
        last = clock()
