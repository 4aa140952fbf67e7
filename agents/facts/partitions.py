"""Which MIG instances are the agent's own, and what keeps a partition change from succeeding."""

from dataclasses import dataclass

from agents.facts.device_keys import InstancePlace
from agents.facts.gpus import InstanceFacts


@dataclass(frozen=True, slots=True)
class PartitionProblem:
    """A partition change that failed, and why."""

    gpu_uuid: str
    code: str
    sentence: str
    # The id of the desired slice that it is about; empty if it is about the GPU.
    slice: str = ""


@dataclass(frozen=True, slots=True)
class InstanceClaim:
    """A place where the agent created an instance, or is about to."""

    gpu_uuid: str
    start: int
    size: int
    profile: str
    # None, and an empty `uuid`, until the result of the creation is known.
    instance_id: int | None = None
    uuid: str = ""

    @property
    def place(self) -> InstancePlace:
        return (self.gpu_uuid, self.start, self.size)

    def covers(self, instance: InstanceFacts) -> bool:
        """Whether the claim is to this instance, even if it lacks its compute instance."""
        if (instance.profile, instance_place(instance)) != (self.profile, self.place):
            return False
        if self.instance_id is None or (self.uuid and instance.uuid == self.uuid):
            return True
        # It lost its compute instance, or just got one: its GPU instance is still the same.
        is_incomplete = not instance.uuid or not self.uuid
        return is_incomplete and instance.instance_id == self.instance_id


def instance_place(instance: InstanceFacts) -> InstancePlace:
    return (instance.gpu_uuid, instance.start, instance.size)
