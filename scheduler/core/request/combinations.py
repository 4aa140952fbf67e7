"""Refuses what does not go together in a request, once every field is read."""

from typing import Any

from agents.combinations.combination import CombinationCode, CombinationVerdict
from agents.combinations.table import matching
from scheduler.core.model.snapshot import DeviceRequest
from scheduler.core.request.combined_shape import shape_of
from scheduler.core.request.launch import refuse_launch, without_nested_launcher
from scheduler.core.request.replica_range import refuse_range
from scheduler.core.request.values import ProblemCode, Refuse


def refuse_combinations(values: dict[str, Any], device: DeviceRequest, refuse: Refuse) -> None:
    """What does not go together; or else what the launcher refuses for its own reasons. `values`:
    by attribute of JobRequest; a range is narrowed to its least and greatest allowed size."""
    if values["max_replicas"] and refuse_range(values, device, refuse):
        return
    shape = shape_of(values, device, values["replicas"])
    rows = list(matching(shape, CombinationVerdict.REFUSE))
    for row in rows:
        changes = dict(row.changes(shape))
        if row.code is CombinationCode.LAUNCHER_IN_COMMAND:
            changes = without_nested_launcher(values, device.gpus)
        elif "device" in changes and device.models:
            changes["device"] |= {"models": list(device.models)}
        why, code = row.sentence(shape), str(row.code)
        refuse(row.field, ProblemCode.COMBINATION, why, changes, code)
    if not rows:
        refuse_launch(values, device.gpus, refuse)
