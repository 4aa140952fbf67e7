"""C symbols of event sets. Events are in the state file, so other processes can create them; each
set remembers the last event that it returned for each GPU."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.simdriver.codes import Code, DriverError
from agents.simdriver.handles import Ref
from agents.simdriver.health import physical_gpu
from agents.simdriver.state import SimulatedEvent, SimulatedNode

NO_INSTANCE = 0xFFFFFFFF
POLL_SECONDS = 0.01


@dataclass
class SimulatedEventSet:
    """`types` and `last` by GPU: the registered mask, and the number of the last event."""

    types: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def next(self, node: SimulatedNode) -> SimulatedEvent | None:
        for event in node.events:
            if event.number > self.last.get(event.gpu, event.number):
                self.last[event.gpu] = event.number
                if event.type & self.types[event.gpu]:
                    return event
        return None


def _create(library: Any, out: Any) -> None:
    library.event_set_count += 1
    ref = Ref("", uuid=f"event-set-{library.event_set_count}")
    library.event_sets[ref] = SimulatedEventSet()
    library.handles.give(out, ref)


def _set_of(library: Any, handle: Any) -> SimulatedEventSet:
    """Raises DriverError for a handle that is not an event set, or was freed."""
    found: SimulatedEventSet | None = library.event_sets.get(library.handles.ref(handle))
    if found is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    return found


def _register(library: Any, handle: Any, types: Any, set_handle: Any) -> None:
    """nvml.h: where one of the types is not supported, none is registered."""
    events, gpu = _set_of(library, set_handle), physical_gpu(library, handle)
    if types.value & ~gpu.event_types:
        raise DriverError(Code.NOT_SUPPORTED)
    events.types[gpu.uuid] = events.types.get(gpu.uuid, 0) | types.value
    events.last.setdefault(gpu.uuid, library.store.node().event_count)


def _wait(library: Any, set_handle: Any, data: Any, milliseconds: Any) -> None:
    """Returns the events from before a GPU was lost, then GPU_IS_LOST."""
    deadline = time.monotonic() + milliseconds.value / 1_000
    while True:
        events, node = _set_of(library, set_handle), library.store.node()
        if event := events.next(node):
            _fill(library, data._obj, event)
            return
        if any(gpu.lost and gpu.uuid in events.types for gpu in node.gpus):
            raise DriverError(Code.GPU_IS_LOST)
        left = deadline - time.monotonic()
        if left <= 0:
            raise DriverError(Code.TIMEOUT)
        library.sleep(min(POLL_SECONDS, left))


def _fill(library: Any, data: Any, event: SimulatedEvent) -> None:
    kind = dict(data._fields_)["device"]
    data.device = library.handles.pointer(kind, Ref(event.gpu))
    data.eventType, data.eventData = event.type, event.data
    data.gpuInstanceId = _or_none(event.gpu_instance)
    data.computeInstanceId = _or_none(event.compute_instance)


def _or_none(instance: int | None) -> int:
    return NO_INSTANCE if instance is None else instance


def _free(library: Any, set_handle: Any) -> None:
    _set_of(library, set_handle)
    del library.event_sets[library.handles.ref(set_handle)]


EVENT_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlEventSetCreate": _create,
    "nvmlDeviceRegisterEvents": _register,
    "nvmlEventSetWait_v2": _wait,
    "nvmlEventSetFree": _free,
}
