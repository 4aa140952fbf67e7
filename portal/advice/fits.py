"""How many devices of a kind hold a task. Pure."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from portal.advice.devices import ClusterDevice
from portal.advice.memory import MemoryNeed, memory_need
from portal.advice.question import AdviceQuestion
from scheduler.advisor.errors import AdvisorError

# What is told of a larger cluster than this one.
MOST_GPUS = 4_096


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """A number of devices of one kind, and what each has to hold."""

    device: ClusterDevice
    nodes: int
    gpus: int
    """Devices on all nodes together."""
    need: MemoryNeed
    """Of each device."""

    @property
    def fits(self) -> bool:
        return self.need.total <= self.device.memory_bytes

    @property
    def missing_bytes(self) -> int:
        """What each device is short of; 0 if it fits."""
        return max(0, self.need.total - self.device.memory_bytes)

    @property
    def units(self) -> int:
        return self.gpus * self.device.units


def device_fit(question: AdviceQuestion, device: ClusterDevice) -> DeviceFit:
    """The fewest devices of this kind that hold the task; if no number does, the most that were
    tried. Raises AdvisorError where the task is none for the model."""
    fit = DeviceFit(device, 1, 1, memory_need(question, 1, device.memory_bytes))
    for nodes, each in device.gang_sizes():
        # A model server is divided over the GPUs of one node.
        if fit.fits or (nodes > 1 and not question.is_training):
            break
        # A model need not divide by so many.
        with suppress(AdvisorError):
            need = memory_need(question, nodes * each, device.memory_bytes)
            fit = DeviceFit(device, nodes, nodes * each, need)
    return fit


def gpus_enough(question: AdviceQuestion, device: ClusterDevice) -> int:
    """How many whole GPUs of this model would hold it, in powers of two, wherever they came from; 0
    for a slice, or where MOST_GPUS would not."""
    gpus = 1
    while device.profile is None and gpus <= MOST_GPUS:
        with suppress(AdvisorError):
            if memory_need(question, gpus, device.memory_bytes).total <= device.memory_bytes:
                return gpus
        gpus *= 2
    return 0


def device_fits(question: AdviceQuestion, devices: Iterable[ClusterDevice]) -> list[DeviceFit]:
    """What fits first, the cheapest of it first; then what comes nearest to fitting."""
    fits = [device_fit(question, device) for device in devices]
    return sorted(
        fits,
        key=lambda fit: (
            fit.missing_bytes > 0,
            fit.units if fit.fits else fit.missing_bytes,
            fit.device.memory_bytes,
            fit.device.name,
        ),
    )
