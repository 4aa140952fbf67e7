"""Telemetry of one agent: the sampler, the page for Prometheus, the latest look to the portal."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from agents.contract.documents import ObservedDocument
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.telemetry import TelemetryRequest
from agents.portal.client import PortalClient, PortalUnreachable
from agents.telemetry.endpoint import MetricsEndpoint
from agents.telemetry.metrics import State, families
from agents.telemetry.sampler import Sampler
from agents.telemetry.settings import Address

# A look that is older is not told to Prometheus any more: the driver hangs, and nobody knows.
STALE_LOOKS = 3
STALE_SECONDS = 60.0

log = logging.getLogger("agents.telemetry")


class Telemetry:
    """`start` and `stop` around the agent's life. Without a sampler (0 seconds) it tells nothing of
    devices, and sends nothing."""

    def __init__(self, hostname: str, sampler: Sampler | None, at: Address | None) -> None:
        self.hostname = hostname
        self.sampler = sampler
        self._at = at
        self._endpoint: MetricsEndpoint | None = None
        self._document: ObservedDocument | None = None
        self._rounds: Callable[[], int] = lambda: 0

    def tap_reports(
        self, report: Callable[[ObservedDocument], None]
    ) -> Callable[[ObservedDocument], None]:
        """What is told of the node is known here too."""

        def both(document: ObservedDocument) -> None:
            self._document = document
            report(document)

        return both

    def start(self, rounds: Callable[[], int]) -> None:
        """Raises EndpointFailure. `rounds` counts those of the reconcile loop."""
        self._rounds = rounds
        if self._at is not None:
            self._endpoint = MetricsEndpoint(self._at, self.families)
            log.info("metrics_at", extra={"address": str(self._at)})
        if self.sampler is not None:
            self.sampler.start()

    def stop(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
        if self.sampler is not None:
            self.sampler.stop()

    def families(self) -> Iterable[Metric]:
        return families(self.state())

    def state(self) -> State:
        """What one scrape tells: of devices only what is not stale."""
        sampler = self.sampler
        if sampler is None:
            return State(self.hostname, self._document, rounds=self._rounds())
        look = sampler.last
        age = sampler.age(look) if look.number else None
        too_old = max(STALE_SECONDS, STALE_LOOKS * sampler.every_seconds)
        return State(
            hostname=self.hostname,
            document=self._document,
            samples=look.samples if age is not None and age <= too_old else (),
            age_seconds=age,
            rounds=self._rounds(),
            looks=look.number,
            failed_looks=sampler.failures,
        )

    async def send_forever(self, client: PortalClient) -> None:
        """Each look once, at most as often as looks are taken and as the portal says."""
        if self.sampler is None:
            return
        sent, pause = 0, 0.0
        while True:
            await asyncio.sleep(max(pause, self.sampler.every_seconds))
            try:
                sent, pause = await self.send(client, sent)
            except Exception:
                log.exception("telemetry_not_sent")

    async def send(self, client: PortalClient, sent: int) -> tuple[int, float]:
        """The number of the look that the portal has now, and the seconds that it wants no other.

        One that was not taken is not sent again: the next look says more.
        """
        sampler = self.sampler
        look = sampler.last if sampler else None
        if sampler is None or look is None or not client.epoch or look.number == sent:
            return sent, 0.0
        if not look.samples:
            return look.number, 0.0
        age_ms = min(86_400_000, round(sampler.age(look) * 1_000))
        try:
            answer = await client.telemetry(TelemetryRequest(client.epoch, look.samples, age_ms))
        except PortalUnreachable as away:
            log.info("telemetry_not_sent", extra={"why": str(away)})
            return look.number, 0.0
        except ContractError as refused:
            log.info("telemetry_refused", extra={"why": str(refused)})
            return look.number, _pause(refused)
        return look.number, float(answer.next_seconds)


def _pause(refused: ContractError) -> float:
    if refused.code is not ContractErrorCode.TOO_FREQUENT or not refused.extra:
        return 0.0
    return float(refused.extra.get("retry_seconds", 0))
