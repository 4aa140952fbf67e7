"""Requests whose gang may have several sizes: `replicas: {min: 2, max: 8}`.

    {min: 2, max: 8}  ─▶ (2, 8)           as it is read
    (2, 8)            ─▶ (2, 4, 6, 8)     the sizes that the rest of the request allows

A size is allowed if a request for this number alone would be accepted: a tensor-parallel size that
does not divide one leaves it out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from agents.combinations.combination import CombinationVerdict
from agents.combinations.table import matching
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.registry import LAUNCHERS, SEVERAL
from scheduler.core.model.snapshot import DeviceRequest
from scheduler.core.request.combined_shape import shape_of
from scheduler.core.request.launch import launch_refusal_of
from scheduler.core.request.values import JobRequest, ProblemCode, Refuse
from scheduler.core.request_fields import read_count_range

FORM = "write a whole number, or the fewest and the most as {min: 2, max: 8}"
BOUNDS = ("min", "max")


def read_replicas(
    value: Any, refuse: Refuse, bounded: Callable[[str, Any], int]
) -> tuple[int, int]:
    """The least and the greatest number; 0 for the latter where there is one number alone.
    `bounded`: reads a number, by the path of its field."""
    if isinstance(value, str) and isinstance(read_count_range(value), Mapping):
        refuse("replicas", ProblemCode.TYPE, FORM, {"replicas": read_count_range(value)})
        return 1, 0
    if not isinstance(value, Mapping):
        return bounded("replicas", value), 0
    if set(value) != set(BOUNDS):
        refuse("replicas", ProblemCode.TYPE, FORM)
        return 1, 0
    least, most = (bounded(f"replicas.{name}", value[name]) for name in BOUNDS)
    if (least, most) != tuple(value[name] for name in BOUNDS):
        return 1, 0
    if least > most:
        sentence = Message(
            "the fewest replicas, %(least)s, are more than the most, %(most)s",
            least=least,
            most=most,
        )
        refuse("replicas", ProblemCode.RANGE, sentence, {"replicas": {"min": most, "max": least}})
        return most, 0
    return least, most if most > least else 0


def replica_sizes(request: JobRequest) -> tuple[int, ...]:
    """The allowed sizes, the least first; empty for a request of one size."""
    if not request.max_replicas:
        return ()
    names = ("processes", "launcher", "backend", "topology", "command", "env", "profiler")
    values = {name: getattr(request, name) for name in names}
    return _allowed(values, request.device, range(request.replicas, request.max_replicas + 1))


def _allowed(values: Mapping[str, Any], device: DeviceRequest, sizes: range) -> tuple[int, ...]:
    return tuple(
        size
        for size in sizes
        if not any(matching(shape_of(values, device, size), CombinationVerdict.REFUSE))
        and launch_refusal_of(values, device.gpus, size) is None
    )


def refuse_range(values: dict[str, Any], device: DeviceRequest, refuse: Refuse) -> bool:
    """Problems of a range, once every field is read, or else its least and its greatest allowed
    size in `values`. False if no size is allowed: then the least one has problems of its own."""
    launcher: LauncherName = values["launcher"]
    if not (LAUNCHERS[launcher].starts_several or launcher is LauncherName.NONE):
        why = Message(
            "launcher %(launcher)s starts a job with one number of replicas alone: write that "
            "number, or choose launcher %(several)s",
            launcher=str(launcher),
            several=str(SEVERAL),
        )
        refuse("replicas", ProblemCode.COMBINATION, why, {"replicas": values["replicas"]})
    if not values["infrastructure_retries"]:
        why = Message(
            "a job that changes its number of replicas is started again: allow a retry after a "
            "node failure"
        )
        retries = {"infrastructure": 1, "user": values["user_retries"]}
        refuse("retries.infrastructure", ProblemCode.COMBINATION, why, {"retries": retries})
    sizes = _allowed(values, device, range(values["replicas"], values["max_replicas"] + 1))
    if not sizes:
        return False
    if len(sizes) == 1:
        why = Message(
            "of these numbers of replicas, the rest of the request allows %(size)s alone: write "
            "%(size)s",
            size=sizes[0],
        )
        refuse("replicas", ProblemCode.COMBINATION, why, {"replicas": sizes[0]})
    values["replicas"], values["max_replicas"] = sizes[0], sizes[-1]
    return True
