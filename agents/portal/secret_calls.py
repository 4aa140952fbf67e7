"""Asks the portal for the secrets of replicas, from threads beside the event loop of the calls."""

import asyncio
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NoAnswer

from agents.contract.errors import ContractError
from agents.contract.job_secrets import SecretsResponse
from agents.job_secrets.delivery import SecretsAway
from agents.portal.client import PortalClient, PortalUnreachable

ANSWER_SECONDS = 30.0


class SecretCalls:
    """One call for each replica."""

    def __init__(self, client: PortalClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

    def fetch(self, replica: str) -> SecretsResponse:
        """Raises SecretsAway; not to be called from the event loop's own thread."""
        if not self._client.epoch:
            raise SecretsAway("the portal has not answered yet")
        call = self._client.secrets(replica)
        try:
            answer = asyncio.run_coroutine_threadsafe(call, self._loop)
        except RuntimeError as ended:
            call.close()
            raise SecretsAway("the agent is ending") from ended
        try:
            return answer.result(ANSWER_SECONDS)
        except (PortalUnreachable, ContractError) as away:
            raise SecretsAway(str(away)) from away
        except (NoAnswer, CancelledError) as away:
            answer.cancel()
            raise SecretsAway("the portal did not answer in time") from away
