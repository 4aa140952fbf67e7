"""Ready starts for whoever has no jobs yet: a click opens the request form filled in.

Only such as run wherever a slice can be given: they need `sh` and nothing of an image beyond it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from portal.web.request.form import DEFAULTS, WHOLE


@dataclass(frozen=True, slots=True)
class Start:
    """`values`: what the form has other than its defaults."""

    key: str
    title: str | Promise
    why: str | Promise
    values: Mapping[str, str]


STARTS = (
    Start(
        "slice",
        gettext_lazy("A slice, for a first look"),
        gettext_lazy(
            "The smallest piece of a GPU for half an hour. It says which one it was given."
        ),
        {},
    ),
    Start(
        "gpu",
        gettext_lazy("A whole GPU"),
        gettext_lazy("One GPU to yourself. Put your own image and command in."),
        {"name": "whole-gpu", "amount": WHOLE, "gpus": "1"},
    ),
    Start(
        "together",
        gettext_lazy("Two that start together"),
        gettext_lazy("A gang of two, as distributed training needs it. Each says where they meet."),
        {
            "name": "together",
            "replicas": "2",
            "topology": "any",
            "command": "sh -c 'echo \"rank $RANK of $WORLD_SIZE meets at "
            "$MASTER_ADDR:$MASTER_PORT\"; sleep 20; echo done'",
        },
    ),
)


def starts(image_allow: str) -> tuple[Start, ...]:
    """Those whose image may be asked for here."""
    patterns = [word.strip() for word in image_allow.split(",") if word.strip()]
    is_allowed = any(fnmatchcase(DEFAULTS["image"], pattern) for pattern in patterns)
    return STARTS if is_allowed else ()


def start_values(key: str) -> Mapping[str, str] | None:
    """What to put into a fresh form, or None where there is no such start."""
    return next((start.values for start in STARTS if start.key == key), None)
