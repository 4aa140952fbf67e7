"""Telemetry of an agent: the sampler, the Prometheus endpoint, and the portal."""

import asyncio
import contextlib
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

# An older reading is not served to Prometheus any more, because the driver hangs.
STALE_READINGS = 3
STALE_SECONDS = 60.0

log = logging.getLogger("agents.telemetry")


class Telemetry:
    """Telemetry from `start` to `stop`. Without a sampler (0 seconds) it has no device metrics and
    sends nothing to the portal."""

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
        """A callback that keeps each document for the metrics and passes it to `report`."""

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

    def without_handles(self) -> contextlib.AbstractContextManager[None]:
        """The sensors are closed during the block. Raises GateBusy."""
        return self.sampler.without_handles() if self.sampler else contextlib.nullcontext()

    def stop(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
        if self.sampler is not None:
            self.sampler.stop()

    def families(self) -> Iterable[Metric]:
        return families(self.state())

    def state(self) -> State:
        """The content of one scrape, without stale readings."""
        sampler = self.sampler
        if sampler is None:
            return State(self.hostname, self._document, rounds=self._rounds())
        reading = sampler.last
        age = sampler.age(reading) if reading.number else None
        too_old = max(STALE_SECONDS, STALE_READINGS * sampler.every_seconds)
        return State(
            hostname=self.hostname,
            document=self._document,
            samples=reading.samples if age is not None and age <= too_old else (),
            age_seconds=age,
            rounds=self._rounds(),
            readings=reading.number,
            failed_readings=sampler.failures,
        )

    async def send_forever(self, client: PortalClient) -> None:
        """Sends each reading once, and no more often than the portal allows."""
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
        """The number of the last reading sent, and the seconds to wait before the next.

        A reading that could not be delivered is not sent again; the next one replaces it.
        """
        sampler = self.sampler
        reading = sampler.last if sampler else None
        if sampler is None or reading is None or not client.epoch or reading.number == sent:
            return sent, 0.0
        if not reading.samples:
            return reading.number, 0.0
        age_ms = min(86_400_000, round(sampler.age(reading) * 1_000))
        try:
            answer = await client.telemetry(TelemetryRequest(client.epoch, reading.samples, age_ms))
        except PortalUnreachable as away:
            log.info("telemetry_not_sent", extra={"why": str(away)})
            return reading.number, 0.0
        except ContractError as refused:
            log.info("telemetry_refused", extra={"why": str(refused)})
            return reading.number, _pause(refused)
        return reading.number, float(answer.next_seconds)


def _pause(refused: ContractError) -> float:
    is_too_soon = refused.code is ContractErrorCode.TOO_FREQUENT
    return float(refused.retry_seconds) if is_too_soon else 0.0
