"""Whether the images of replicas run on this node, before anything is made for them."""

import threading
from collections.abc import Collection, Mapping

from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplica, NodeFacts
from agents.contract.image_needs import IMAGE_UNFIT, ImageNeeds, NodeFit, unfit_message
from agents.runtime.base import Runtime, RuntimeFailure


class ImageFit:
    """Remembers what the images of replicas need, for the node's report. Thread-safe."""

    def __init__(self, runtime: Runtime, policy: NodePolicy) -> None:
        self._runtime = runtime
        self._policy = policy
        self._needs: dict[str, ImageNeeds] = {}
        self._lock = threading.Lock()

    def require(self, replica: DesiredReplica, facts: NodeFacts) -> None:
        """Raises RuntimeFailure if its image, which is here, needs another node than this. Without
        the check, the container would fail to start, or its programs would find no GPU."""
        needs = self._runtime.image_needs(self._policy.wanted_image(replica))
        if not needs:
            return
        with self._lock:
            self._needs[replica.id] = needs
        fit = NodeFit(facts.cuda_version, facts.driver_version, facts.architecture)
        if message := unfit_message(replica.image, needs, fit):
            raise RuntimeFailure(IMAGE_UNFIT, message.text, message)

    def needs(self) -> Mapping[str, ImageNeeds]:
        """By replica, of those whose image needs something."""
        with self._lock:
            return dict(self._needs)

    def keep(self, replicas: Collection[str]) -> None:
        """Forget all others."""
        with self._lock:
            for gone in self._needs.keys() - set(replicas):
                del self._needs[gone]
