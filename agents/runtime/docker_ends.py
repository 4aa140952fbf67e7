"""How containers of a Docker Engine stand, and how they ended."""

from collections.abc import Collection, Mapping
from typing import Any

from docker.api.client import APIClient

from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.runtime.docker_recipe import LABEL
from agents.runtime.docker_start import read_engine_time

PHASES = {
    "created": ContainerPhase.CREATED,
    "exited": ContainerPhase.EXITED,
    "dead": ContainerPhase.EXITED,
}
# By SIGKILL: of the kernel for memory, or of anybody else.
KILLED = 137
# As `docker ps` prints it.
SHORT_ID = 12


class ContainerEnds:
    """The states of containers that have ended: each is asked for once. That it was killed for its
    memory, the engine may note a moment after the end: one that was killed is asked for again."""

    def __init__(self, api: APIClient) -> None:
        self._api = api
        # By container id.
        self._states: dict[str, dict[str, Any]] = {}

    def read(self, container_id: str) -> dict[str, Any]:
        """Raises NotFound."""
        state = self._states.get(container_id)
        if state is None:
            state = self._api.inspect_container(container_id)["State"]
            if state["ExitCode"] != KILLED or state.get("OOMKilled"):
                self._states[container_id] = state
        return state

    def keep(self, ids: Collection[str]) -> None:
        """Forget those of all other containers."""
        # A copy of the keys: another thread may add one meanwhile.
        for gone in set(self._states).difference(ids):
            self._states.pop(gone, None)


def container_status(
    all_labels: Mapping[str, str], state: Mapping[str, Any], container_id: str, *, is_complete: bool
) -> ContainerStatus:
    """`state`: as the engine gives it. `is_complete`: its log is. Until then, one that has ended
    counts as running."""
    labels = {key.removeprefix(LABEL): value for key, value in all_labels.items()}
    phase = PHASES.get(state["Status"], ContainerPhase.RUNNING)
    has_ended = phase is ContainerPhase.EXITED
    if has_ended and not is_complete:
        phase = ContainerPhase.RUNNING
    exit_code = int(state["ExitCode"]) if phase is ContainerPhase.EXITED else None
    return ContainerStatus(
        replica=labels["replica"],
        job=labels["job"],
        attempt=int(labels["attempt"]),
        rank=int(labels["rank"]),
        fence=int(labels["fence"]),
        phase=phase,
        container=container_id[:SHORT_ID],
        address=labels["address"],
        port=int(labels["port"]),
        exit_code=exit_code,
        # The engine also sets it for a program that went on after a child of it was killed.
        memory_kill=bool(exit_code and state.get("OOMKilled")),
        sentence=str(state.get("Error", "")),
        finished_at=read_engine_time(state.get("FinishedAt", "")) if has_ended else None,
        image_digest=labels.get("image", ""),
    )
