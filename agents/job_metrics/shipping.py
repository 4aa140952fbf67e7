"""Ships the metrics that jobs report, in calls of their own beside sync and logs."""

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from agents.contract.documents import ObservedDocument, ReplicaState
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.job_metrics import JobMetricsRequest
from agents.job_metrics.batch import NewMetrics
from agents.job_metrics.files import MetricsFiles
from agents.job_metrics.logs import MetricsLogs, ReadLog
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
    """`path_of`: where the metrics file of a replica would be. `read_log`: bytes of its log."""

    def __init__(self, path_of: Callable[[str], Path | None], read_log: ReadLog) -> None:
        self.files = MetricsFiles(path_of)
        self.logs = MetricsLogs(read_log)
        self._replicas: dict[str, bool] = {}
        # Until then, metrics in logs are not sent: the portal is older than they are.
        self._logs_refused_until = 0.0

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
            self.files.take((await client.job_metrics(_request(client, batches))).results)
        if client.epoch and (batches := self.logs.due()):
            await self._send_of_logs(client, batches)
        self.files.forget_except(replicas)
        self.logs.forget_except(replicas)

    async def _send_of_logs(self, client: PortalClient, batches: list[NewMetrics]) -> None:
        if time.monotonic() < self._logs_refused_until:
            self.logs.drop()
            return
        try:
            answer = await client.job_metrics(_request(client, batches, from_logs=True))
        except ContractError as refused:
            if refused.code is not ContractErrorCode.UNKNOWN_FIELD:
                raise
            log.info("portal_takes_no_metrics_of_logs")
            self._logs_refused_until = time.monotonic() + OLDER_PORTAL_SECONDS
        else:
            self.logs.take(answer.results)


def _request(
    client: PortalClient, batches: list[NewMetrics], *, from_logs: bool = False
) -> JobMetricsRequest:
    on_the_wire = tuple(batch.on_the_wire() for batch in batches)
    return JobMetricsRequest(client.epoch, on_the_wire, from_logs=from_logs)
