"""Asks the launcher of a request whether it can start it."""

from collections.abc import Mapping
from typing import Any

from agents.launchers.base import LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import launch_refusal
from scheduler.core.request.values import ProblemCode, Refuse


def refuse_launch(values: Mapping[str, Any], gpus: int, refuse: Refuse) -> None:
    """What the launcher cannot start although everything goes together (agents/combinations/).
    `values`: by attribute of JobRequest. `gpus`: whole GPUs per replica."""
    refusal = launch_refusal(values["launcher"], _launch_request(values, gpus))
    if refusal:
        refuse(refusal.field, ProblemCode.COMBINATION, refusal.why, refusal.changes)


def without_nested_launcher(values: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Fields of the request that leave one launcher; empty if no change keeps its meaning."""
    nested = nested_launcher(values["launcher"], _launch_request(values, gpus))
    return dict(nested.changes) if nested else {}


def _launch_request(values: Mapping[str, Any], gpus: int) -> LaunchRequest:
    return LaunchRequest(
        command=values["command"],
        env=values["env"],
        replicas=values["replicas"],
        processes=values["processes"],
        gpus=gpus,
    )
