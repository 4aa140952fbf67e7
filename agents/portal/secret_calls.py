"""Asks the portal for the secrets of replicas, from threads beside the event loop of the calls."""

from agents.contract.errors import ContractError
from agents.contract.job_secrets import SecretsResponse
from agents.contract.registries import PullCredentialResponse
from agents.job_secrets.delivery import SecretsAway
from agents.portal.client import PortalOlder, PortalUnreachable
from agents.portal.loop_calls import LoopCalls

ANSWER_SECONDS = 30.0


class SecretCalls:
    """One call for each replica, and one for each pull."""

    def __init__(self, calls: LoopCalls) -> None:
        self._calls = calls

    def fetch(self, replica: str) -> SecretsResponse:
        """Raises SecretsAway."""
        try:
            return self._calls.answer(self._calls.client.secrets(replica), ANSWER_SECONDS)
        except (PortalUnreachable, ContractError) as away:
            raise SecretsAway(str(away)) from away

    def fetch_credential(self, replica: str) -> PullCredentialResponse:
        """A portal that does not know the call has no credentials either. Raises SecretsAway."""
        call = self._calls.client.pull_credential(replica)
        try:
            return self._calls.answer(call, ANSWER_SECONDS)
        except PortalOlder:
            return PullCredentialResponse()
        except (PortalUnreachable, ContractError) as away:
            raise SecretsAway(str(away)) from away
