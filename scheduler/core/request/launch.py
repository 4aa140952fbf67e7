"""Asks the launcher of a request whether it can start it."""

from collections.abc import Mapping
from typing import Any

from agents.launchers.base import LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import launch_refusal
from scheduler.core.request.values import ProblemCode, Refuse


def refuse_launch(values: Mapping[str, Any], gpus: int, refuse: Refuse) -> None:
    """`values`: by attribute of JobRequest. `gpus`: whole GPUs per replica."""
    launcher = values["launcher"]
    asked = LaunchRequest(
        command=values["command"],
        env=values["env"],
        replicas=values["replicas"],
        processes=values["processes"],
        gpus=gpus,
    )
    refusal = nested_launcher(launcher, asked) or launch_refusal(launcher, asked)
    if refusal:
        refuse(refusal.field, ProblemCode.COMBINATION, refusal.why, refusal.changes)
