"""X."""

from dataclasses import dataclass

from agents.facts.device_keys import InstancePlace
from agents.facts.gpus import InstanceFacts


@dataclass(frozen=True, slots=True)
class PartitionProblem:
    """What could not be done, and why. `slice`: the wanted slice's id, where it is about one."""

    gpu_uuid: str
    code: str
    sentence: str
    slice: str = ""


@dataclass(frozen=True, slots=True)
class InstanceClaim:
    """A place that we made an instance at, or are about to. `uuid` is empty, and `instance_id` is
    None, while it is not known what came of it."""

    gpu_uuid: str
    start: int
    size: int
    profile: str
    instance_id: int | None = None
    uuid: str = ""

    @property
    def place(self) -> InstancePlace:
        return (self.gpu_uuid, self.start, self.size)

    def covers(self, instance: InstanceFacts) -> bool:
        """Whether it is this instance, whole or half-made."""
        if (instance.profile, instance_place(instance)) != (self.profile, self.place):
            return False
        if self.instance_id is None or (self.uuid and instance.uuid == self.uuid):
            return True
        # It lost its compute instance, or has just got one: its GPU instance is still the same.
        is_half = not instance.uuid or not self.uuid
        return is_half and instance.instance_id == self.instance_id


def instance_place(instance: InstanceFacts) -> InstancePlace:
    return (instance.gpu_uuid, instance.start, instance.size)
