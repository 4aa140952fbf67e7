"""Ships the metrics that jobs report, in calls of their own beside sync and logs."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from agents.contract.documents import ObservedDocument, ReplicaState
from agents.contract.errors import ContractError
from agents.contract.job_metrics import JobMetricsRequest
from agents.job_metrics.files import MetricsFiles
from agents.portal.client import PortalClient, PortalOlder, PortalUnreachable

# How often files are looked at. A node without new points makes no call.
ROUND_SECONDS = 1.0
# After a call that failed.
RETRY_SECONDS = 5.0
# Of a portal that does not know the call.
OLDER_PORTAL_SECONDS = 600.0

ENDED = frozenset({ReplicaState.EXITED, ReplicaState.FAILED})

log = logging.getLogger("agents.job_metrics")


class JobMetricsShipping:
    """`path_of`: where the metrics file of a replica would be."""

    def __init__(self, path_of: Callable[[str], Path | None]) -> None:
        self.files = MetricsFiles(path_of)
        self._replicas: dict[str, bool] = {}

    def tap_reports(
        self, report: Callable[[ObservedDocument], None]
    ) -> Callable[[ObservedDocument], None]:
        """A callback that learns from each document which replicas run, and passes it on."""

        def both(document: ObservedDocument) -> None:
            states = {replica.id: replica.state for replica in document.replicas}
            self._replicas = {
                replica: state in ENDED
                for replica, state in states.items()
                if state is ReplicaState.RUNNING or state in ENDED
            }
            report(document)

        return both

    def before_removal(self, replica: str) -> None:
        """Its file is about to be removed; whatever is wrong with it, that goes on."""
        try:
            self.files.read_last(replica)
        except OSError as error:
            log.warning("metrics_unread", extra={"replica": replica, "why": str(error)})

    async def ship_forever(self, client: PortalClient) -> None:
        while True:
            pause = ROUND_SECONDS
            try:
                await self.ship(client)
            except PortalOlder:
                log.info("portal_takes_no_metrics")
                pause = OLDER_PORTAL_SECONDS
            except PortalUnreachable as away:
                log.info("metrics_not_sent", extra={"why": str(away)})
                pause = RETRY_SECONDS
            except ContractError as refused:
                log.info("metrics_refused", extra={"why": str(refused)})
                pause = max(RETRY_SECONDS, refused.retry_seconds)
            except Exception:
                log.exception("metrics_not_sent")
                pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    async def ship(self, client: PortalClient) -> None:
        """One round: read on, and send what there is."""
        replicas = self._replicas
        await asyncio.to_thread(self.files.read, replicas)
        if client.epoch and (batches := self.files.due()):
            request = JobMetricsRequest(
                client.epoch, tuple(batch.on_the_wire() for batch in batches)
            )
            self.files.take((await client.job_metrics(request)).results)
        self.files.forget_except(replicas)
