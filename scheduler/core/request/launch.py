"""Asks the launcher of a request whether it can start it."""

from collections.abc import Mapping
from typing import Any

from agents.launchers.base import LaunchRefusal, LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import launch_refusal
from scheduler.core.request.values import ProblemCode, Refuse


def refuse_launch(values: Mapping[str, Any], gpus: int, refuse: Refuse) -> None:
    """What the launcher cannot start although everything goes together (agents/combinations/).
    `values`: by attribute of JobRequest. `gpus`: whole GPUs per replica."""
    refusal = launch_refusal_of(values, gpus, values["replicas"])
    if refusal:
        refuse(refusal.field, ProblemCode.COMBINATION, refusal.why, refusal.changes)


def launch_refusal_of(values: Mapping[str, Any], gpus: int, replicas: int) -> LaunchRefusal | None:
    """Why the launcher cannot start this many replicas; None if it can."""
    return launch_refusal(values["launcher"], _launch_request(values, gpus, replicas))


def without_nested_launcher(values: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Fields of the request that leave one launcher; empty if no change keeps its meaning."""
    request = _launch_request(values, gpus, values["replicas"])
    nested = nested_launcher(values["launcher"], request)
    return dict(nested.changes) if nested else {}


def _launch_request(values: Mapping[str, Any], gpus: int, replicas: int) -> LaunchRequest:
    return LaunchRequest(
        command=values["command"],
        env=values["env"],
        replicas=replicas,
        processes=values["processes"],
        gpus=gpus,
    )
