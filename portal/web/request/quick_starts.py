"""Quick starts for users without jobs: one click opens the request form filled in.

They run wherever a slice can be allocated, and need nothing of their image but `sh`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from agents.contract.image_reference import is_image_allowed
from portal.web.request.form import DEFAULTS, WHOLE_GPUS


@dataclass(frozen=True, slots=True)
class QuickStart:
    """One entry of the list."""

    key: str
    title: str | Promise
    description: str | Promise
    values: Mapping[str, str]
    """Values of the form that differ from its defaults."""


QUICK_STARTS = (
    QuickStart(
        "slice",
        gettext_lazy("A slice, to try it out"),
        gettext_lazy("A small part of a GPU for half an hour. It prints which one it got."),
        {"time_limit": "30m"},
    ),
    QuickStart(
        "gpu",
        gettext_lazy("A whole GPU"),
        gettext_lazy("One GPU to yourself. Enter your own image and command."),
        {"name": "whole-gpu", "amount": WHOLE_GPUS, "gpus": "1"},
    ),
    QuickStart(
        "together",
        gettext_lazy("Two replicas that start together"),
        gettext_lazy(
            "A gang of two, as for distributed training. Each prints the address where they meet."
        ),
        {
            "name": "together",
            "time_limit": "30m",
            "replicas": "2",
            "topology": "any",
            "command": "sh -c 'echo \"rank $RANK of $WORLD_SIZE meets at "
            "$MASTER_ADDR:$MASTER_PORT\"; sleep 20; echo done'",
        },
    ),
)


def quick_starts(image_allow: str) -> tuple[QuickStart, ...]:
    """Empty if `image_allow`, comma-separated patterns, does not match their image."""
    patterns = [word.strip() for word in image_allow.split(",") if word.strip()]
    return QUICK_STARTS if is_image_allowed(DEFAULTS["image"], patterns) else ()


def quick_start_values(key: str) -> Mapping[str, str] | None:
    """Values for a new form; None for an unknown key."""
    return next((start.values for start in QUICK_STARTS if start.key == key), None)
